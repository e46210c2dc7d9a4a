r"""Tagged JSON: every string `"x"` as `"=x"`, every bare number `1.50` as `"#1.50"`.

Spark's JSON reader keeps neither what a token was (a quoted number looks like a number) nor a number's
text (`1.50000` becomes 1.5). Tags make both survive `from_json(…, STRING)`: text that starts with `=`
was a string, with `#` a number; `true` and `false` are themselves; `{` and `[` open a container,
tagged inside. Keys are strings too: `id` is found under `=id`.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_STRING = r'"((?:[^"\\]++|\\.)*+)"'
_BARE_NUMBER = r'\G((?:[^"0-9-]++|"(?:[^"\\]++|\\.)*+")*+)(-?[0-9][0-9.eE+-]*+)'
_TAGGED_NUMBER = r'\G((?:[^"]++|"=(?:[^"\\]++|\\.)*+")*+)"#([^"]*+)"'
_TAGGED_STRING = r'"=((?:[^"\\]++|\\.)*+)"'


def tag(json: Column) -> Column:
    """Valid JSON text, tagged. Possessive patterns, so that a long text cannot overflow the stack."""
    return F.regexp_replace(
        F.regexp_replace(json, "(?s)" + _STRING, '"=$1"'), "(?s)" + _BARE_NUMBER, '$1"#$2"'
    )


def untag(json: Column) -> Column:
    """A tagged container as JSON text again; numbers have the text they came with."""
    return F.regexp_replace(
        F.regexp_replace(json, "(?s)" + _TAGGED_NUMBER, "$1$2"), "(?s)" + _TAGGED_STRING, '"$1"'
    )


def is_string(token: Column) -> Column:
    return token.startswith("=")


def is_number(token: Column) -> Column:
    return token.startswith("#")


def is_object(token: Column) -> Column:
    return token.startswith("{")


def is_array(token: Column) -> Column:
    return token.startswith("[")


def is_boolean(token: Column) -> Column:
    return token.isin("true", "false")


def text_of(token: Column) -> Column:
    """What a STRING column holds of any token, and what a dead letter shows as found."""
    return (
        F.when(is_string(token) | is_number(token), F.substr(token, F.lit(2)))
        .when(is_object(token) | is_array(token), untag(token))
        .otherwise(token)
    )


def shown(token: Column) -> Column:
    """As `text_of`, but a string in its quotes: `"1"` is not `1`."""
    return F.when(is_string(token), F.concat(F.lit('"'), F.substr(token, F.lit(2)), F.lit('"'))).otherwise(
        text_of(token)
    )
