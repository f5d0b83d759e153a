"""An OpenID provider that says who a reviewer is: found, asked for a code, and not believed without a signature.

Nothing is passed on here: most who read settings ask no provider, and need not load what verifies its tokens.
"""
