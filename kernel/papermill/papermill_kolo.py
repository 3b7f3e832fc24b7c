"""Parameters of papermill for notebooks in C: `papermill in.ipynb out.ipynb -p epochs 3`.

The cell with the tag "parameters" declares them, with their defaults: `int epochs = 1; double rate = 0.1;`. papermill puts a
cell behind it that assigns the given values, so each keeps the type that the notebook gave it.

papermill has no entry points for translators, but loads those of engines as it starts. This module's registers the
translator, and names papermill's own engine.
"""
import math

from papermill.engines import NBClientEngine as engine  # noqa: F401 (the entry point)
from papermill.translators import Translator, papermill_translators


def quoted(text):
    """As C writes it: an octal escape ends after three digits, whatever follows."""
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else f"\\{byte:03o}" for byte in text.encode())
    return '"' + "".join(plain) + '"'


class CTranslator(Translator):
    translate_escaped_str = translate_str = staticmethod(lambda value: quoted(str(value)))
    translate_none = staticmethod(lambda value: "0")
    translate_bool = staticmethod(lambda value: str(int(value)))
    comment = staticmethod(lambda words: f"// {words}")

    @classmethod
    def translate_int(cls, value):
        return f"{value}" if abs(value) < 2**63 else f"{value}u"

    @classmethod
    def translate_float(cls, value):
        if math.isfinite(value):
            return repr(value)
        return '__builtin_nan("")' if math.isnan(value) else "-__builtin_inf()" if value < 0 else "__builtin_inf()"

    @classmethod
    def translate_list(cls, values):
        """An array, for a parameter that is a pointer to its first element: `double *rates = NULL;`."""
        if not values or any(isinstance(value, (list, dict)) for value in values):
            raise ValueError(f"a list for C has one element or more, none of them a list or a dict; got {values}")
        type_of_all = "const char *" if isinstance(values[0], str) else "double" if float in map(type, values) else "int"
        return f"({type_of_all}[]){{{', '.join(map(cls.translate, values))}}}"

    @classmethod
    def assign(cls, name, value):
        return f"{name} = {value};"


papermill_translators.register("c", CTranslator)
