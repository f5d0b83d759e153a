"""(what a form says) -> whether it asks for a secret, by its words. Pure, total.

It is a list of words, and no understanding: it has what a password, a key or a code is called in English and
some twenty other languages, in letters of other scripts that look the same, and spaced out. Who paraphrases passes.
"""

import re
import unicodedata

from gateway.model.confusables import looks
from gateway.model.lookalikes import unseen

MAX_READ = 20_000
"""Characters that one form says; more is nothing that anybody reads before filling it in."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET = re.compile(
    r"\b(?:pass ?(?:word|wd|phrase|code)s?|pwd|secrets?(?! santa)|credentials?|otp|totp|mfa|cvv|cvc|mnemonic"
    # On a map it is none; nor is Santa.
    r"|(?<!drop a )(?<!drop the )(?<!map )pin(?! (?:on|location|position|colou?r|icon|marker)\b)"
    r"|(?:api|access|private|secret|signing|encryption|recovery|ssh|master) ?keys?|apikey|seed phrase"
    r"|(?:one time|verification|security|auth(?:entication)?|2fa|sms|backup|recovery) ?codes?"
    r"|(?:card|account|social security|routing) numbers?|ssn|iban"
    r"|(?:access|auth|api|bearer|refresh|session|id|secret|personal access|security) tokens?"
    # The same in other languages, without the marks on their letters.
    r"|(?:pass|kenn)w(?:ort|orter|oerter)|geheimzahl|zugangsdaten|(?:api|privater|geheimer) ?schlussel"
    r"|mots? de passe|code secret|cles? (?:api|privee|secrete|d acces)"
    r"|contrasenas?|clave (?:de acceso|secreta|privada|api)|senhas?|palavra passe|chave (?:secreta|privada|api)"
    r"|parola (?:d ordine|segreta)|chiave (?:segreta|privata|api)"
    r"|wachtwoord(?:en)?|losenord|adgangskode|kodeord|passord|salasana|heslo|haslo|jelszo|sifre(?:niz|si)?|kata sandi"
    r"|mat khau)\b"
)
_TOKEN = re.compile(r"^(?:my |your |the |user |github |gitlab |slack |jwt )*token$")
"""Alone; `page_token` and `max_tokens` are none."""
_ELSEWHERE = re.compile(
    "парол[ьяюе]|секретн\\w{2,3} ключ|ключ[аи]? api|пин.?код|密码|密碼|口令|密钥|密鑰"
    "|验证码|驗證碼"
    "|パスワード|暗証番号|秘密鍵|認証コード|비밀번호|암호|인증번호|κωδικ\\w{2,3} πρόσβαση[σς]|סיסמ[הא]"
    "|كلمة (?:المرور|السر)|पासवर्ड|รหัสผ่าน|hasł[oa]"
)
"""In scripts in which words are not told apart by spaces alone, or not written in Latin letters."""
_SPACED = re.compile("pass(?:word|wort|phrase)|kennwort|contrasena|(?:api|secret|private)key")
_LETTERS = str.maketrans({"0": "o", "1": "l", "3": "e", "4": "a", "5": "s", "@": "a", "$": "s"})
_SHORT = 40
"""Characters of a label that is read without its gaps: in a longer one words meet that have nothing to do with it."""


def asks_for_a_secret(text: str, *, label: bool = True) -> bool:
    """Whether the text has a word for a secret, or could not be read for its length. `label`: it is the name of one
    thing, and no sentence.
    """
    folded = unicodedata.normalize("NFKD", text)
    if len(folded) > 2 * MAX_READ:  # one character can be eighteen
        return True
    folded = unicodedata.normalize("NFKC", folded).casefold()
    if _ELSEWHERE.search("".join(char for char in folded if not unseen(char))):
        return True
    words = _words(text)
    if _SECRET.search(words):
        return True
    if not label:
        return False
    letters = re.sub("[^a-z]", "", _latin(text[: _SHORT + 1]).lower().translate(_LETTERS))
    return _TOKEN.match(words) is not None or (len(text) <= _SHORT and _SPACED.search(letters) is not None)


def _words(text: str) -> str:
    """In words, lower case: `apiKey`, `API_KEY` and `api-key` are one."""
    return " ".join(_WORDS.findall(_latin(text))).lower()


def _latin(text: str) -> str:
    """In the Latin letters that it looks to be written in, without marks and what nobody sees."""
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKD", text).translate(looks())
    plain = unicodedata.normalize("NFKD", plain)
    return "".join(char for char in plain if char in "\n\t" or not (unseen(char) or unicodedata.combining(char)))
