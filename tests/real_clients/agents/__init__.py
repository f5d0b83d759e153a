"""The real Claude Code, Codex and Gemini CLI, driven through the gateway by a model that follows a script."""
