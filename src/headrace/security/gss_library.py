"""The door to the system's Kerberos: MIT's libgssapi_krb5, by its C interface (RFC 2744), without a compiler.

The library reads what it always reads: krb5.conf (or KRB5_CONFIG), key tables, ticket caches; and it asks the
KDC. So `initiator` and the first step of a `GssInitiator` block, and are for threads; an acceptor works with
what is on this machine, which has a file of its own for what it has seen already (replays). Nothing is loaded
before somebody asks for Kerberos.

What C hands out is released when the Python object that holds it goes.
"""

import ctypes
import itertools
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from functools import lru_cache
from typing import Any, Final

from headrace.security.sasl.gssapi import GssError

LIBRARY: Final = "libgssapi_krb5.so.2"

_CONTINUE_NEEDED: Final = 1
_ERRORS: Final = 0xFFFF0000
_GSS_CODE: Final = 1
_MECH_CODE: Final = 2
_INITIATE: Final = 1
_ACCEPT: Final = 2
_MUTUAL: Final = 2
_REPLAY: Final = 4
_SEQUENCE: Final = 8
_INTEGRITY: Final = 32
_INDEFINITE: Final = 0xFFFFFFFF

_OUT_OF_REACH: Final = frozenset(code & 0xFFFFFFFF for code in (-1765328228, -1765328230, -1765328164))
"""KRB5_KDC_UNREACH, KRB5_REALM_CANT_RESOLVE, KRB5_REALM_UNKNOWN: nobody has said no."""


class GssUnreachableError(GssError):
    """No KDC has answered: it may later."""


class GssMissingError(Exception):
    """The library is not on this machine."""


class _Buffer(ctypes.Structure):
    _fields_ = (("length", c_size_t), ("value", c_void_p))


class _Oid(ctypes.Structure):
    _fields_ = (("length", c_uint32), ("elements", c_void_p))


class _OidSet(ctypes.Structure):
    _fields_ = (("count", c_size_t), ("elements", POINTER(_Oid)))


class _KeyValue(ctypes.Structure):
    _fields_ = (("key", c_char_p), ("value", c_char_p))


class _KeyValues(ctypes.Structure):
    _fields_ = (("count", c_uint32), ("elements", POINTER(_KeyValue)))


def _oid(elements: bytes) -> _Oid:
    oid = _Oid(len(elements), ctypes.cast(c_char_p(elements), c_void_p))
    oid.kept = elements  # C has its address
    return oid


_KRB5: Final = _oid(bytes.fromhex("2a864886f712010202"))
_KRB5_ONLY: Final = _OidSet(1, ctypes.pointer(_KRB5))
_HOST_BASED: Final = _oid(bytes.fromhex("2a864886f71201020104"))
_PRINCIPAL: Final = _oid(bytes.fromhex("2a864886f71201020201"))

# Handles are pointers; those that a call makes or changes are given by their address.
_P: Final = c_void_p
_OUT: Final = POINTER(c_void_p)
_CODE: Final = POINTER(c_uint32)
_BYTES: Final = POINTER(_Buffer)
_OIDS: Final = POINTER(_Oid)
_FUNCTIONS: Final[Mapping[str, tuple[Any, ...]]] = {
    "gss_import_name": (_CODE, _BYTES, _OIDS, _OUT),
    "gss_canonicalize_name": (_CODE, _P, _OIDS, _OUT),
    "gss_display_name": (_CODE, _P, _BYTES, _P),
    "gss_release_name": (_CODE, _OUT),
    "gss_acquire_cred_from": (
        *(_CODE, _P, c_uint32, POINTER(_OidSet), c_int, POINTER(_KeyValues), _OUT),
        *(_P, _P),
    ),
    "gss_release_cred": (_CODE, _OUT),
    "gss_accept_sec_context": (_CODE, _OUT, _P, _BYTES, _P, _OUT, _OUT, _BYTES, _CODE, _P, _P),
    "gss_init_sec_context": (
        *(_CODE, _P, _OUT, _P, _OIDS, c_uint32, c_uint32, _P, _BYTES),
        *(_P, _BYTES, _CODE, _P),
    ),
    "gss_delete_sec_context": (_CODE, _OUT, _P),
    "gss_wrap": (_CODE, _P, c_int, c_uint32, _BYTES, _P, _BYTES),
    "gss_unwrap": (_CODE, _P, _BYTES, _BYTES, _P, _P),
    "gss_release_buffer": (_CODE, _BYTES),
    "gss_display_status": (_CODE, c_uint32, c_int, _OIDS, _CODE, _BYTES),
}
_KRB5_FUNCTIONS: Final[Mapping[str, tuple[Any, ...]]] = {
    "krb5_init_context": (_OUT,),
    "krb5_cc_resolve": (_P, c_char_p, _OUT),
    "krb5_cc_destroy": (_P, _P),
    "krb5_free_context": (_P,),
}
"""Of the library that libgssapi_krb5 stands on."""


@lru_cache(maxsize=1)
def gss_library() -> "GssLibrary":
    """The library of this machine; GssMissingError where there is none."""
    try:
        return GssLibrary(ctypes.CDLL(LIBRARY))
    except (OSError, AttributeError):
        raise GssMissingError(
            f"Kerberos needs {LIBRARY}, which is not here (Debian: libgssapi-krb5-2, Fedora: krb5-libs)"
        ) from None


class _Handle:
    """Something that C made, until nobody here holds it."""

    def __init__(self, library: "GssLibrary", pointer: c_void_p, release: str) -> None:
        self.pointer = pointer
        weakref.finalize(self, library.release, release, pointer)


class GssLibrary:
    """What is used of the library."""

    def __init__(self, library: Any) -> None:
        self._library = library
        for name, arguments in _FUNCTIONS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, c_uint32
        for name, arguments in _KRB5_FUNCTIONS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, c_uint32
        self._caches = itertools.count(1)

    def acceptor(self, keytab: str, principal: str = "") -> "GssCredential":
        """The keys of a service; without a principal all of the table. GssError where it has none."""
        name = self._name(principal, _PRINCIPAL) if principal else None
        return GssCredential(self._credential(name, _ACCEPT, {"keytab": f"FILE:{keytab}"}))

    def initiator(self, principal: str = "", keytab: str = "", cache: str = "") -> "GssCredential":
        """Who connects, by keys (tickets are then had, and renewed, in the memory of this process under
        `cache`), or by tickets that somebody else has put into a cache, which may be the system's."""
        name = self._name(principal, _PRINCIPAL) if principal else None
        store = {"client_keytab": f"FILE:{keytab}"} if keytab else {}
        if cache:
            store["ccache"] = cache
        return GssCredential(self._credential(name, _INITIATE, store))

    def new_cache(self) -> str:
        """The name of a ticket cache in memory that nobody else uses."""
        return f"MEMORY:headrace-{next(self._caches)}"

    def destroy_cache(self, name: str) -> None:
        """Forget its tickets."""
        context, cache = c_void_p(), c_void_p()
        if self._library.krb5_init_context(byref(context)):
            return
        if not self._library.krb5_cc_resolve(context, name.encode(), byref(cache)):
            self._library.krb5_cc_destroy(context, cache)
        self._library.krb5_free_context(context)

    def accept(self, credential: "GssCredential") -> "GssAcceptor":
        return GssAcceptor(self, credential)

    def initiate(self, credential: "GssCredential", service: str, host: str) -> "GssInitiator":
        return GssInitiator(self, credential, self._name(f"{service}@{host}", _HOST_BASED))

    def default_realm(self) -> str:
        """The realm of this machine's krb5.conf; empty where it has none."""
        try:
            name = self._name("name", _PRINCIPAL)
            canonical = c_void_p()
            self.call("gss_canonicalize_name", name.pointer, byref(_KRB5), byref(canonical))
            held = _Handle(self, canonical, "gss_release_name")
            return self.shown(held.pointer).partition("@")[2]
        except GssError:
            return ""

    # What the classes below use

    def call(self, function: str, *arguments: Any) -> int:
        """Call it, and give its status; GssError where that is one."""
        minor = c_uint32()
        status: int = getattr(self._library, function)(byref(minor), *arguments)
        if status & _ERRORS:
            kind = GssUnreachableError if minor.value in _OUT_OF_REACH else GssError
            raise kind(self._reason(status, minor.value))
        return status

    def release(self, function: str, pointer: c_void_p) -> None:
        if pointer:
            more = (None,) if function == "gss_delete_sec_context" else ()
            getattr(self._library, function)(byref(c_uint32()), byref(pointer), *more)

    def shown(self, name: c_void_p) -> str:
        with self.output() as text:
            self.call("gss_display_name", name, byref(text), None)
            return _bytes(text).decode(errors="backslashreplace")

    @contextmanager
    def output(self) -> Iterator[_Buffer]:
        """Room for what a call gives."""
        buffer = _Buffer()
        try:
            yield buffer
        finally:
            self.call("gss_release_buffer", byref(buffer))

    def _name(self, text: str, kind: _Oid) -> _Handle:
        name = c_void_p()
        self.call("gss_import_name", byref(_input(text.encode())), byref(kind), byref(name))
        return _Handle(self, name, "gss_release_name")

    def _credential(self, name: _Handle | None, usage: int, store: Mapping[str, str]) -> _Handle:
        pairs = [_KeyValue(key.encode(), value.encode()) for key, value in store.items()]
        elements = (_KeyValue * len(pairs))(*pairs)
        values = _KeyValues(len(pairs), elements)
        credential = c_void_p()
        self.call(
            "gss_acquire_cred_from",
            name.pointer if name is not None else None,
            _INDEFINITE,
            byref(_KRB5_ONLY),
            usage,
            byref(values) if pairs else None,
            byref(credential),
            None,
            None,
        )
        return _Handle(self, credential, "gss_release_cred")

    def _reason(self, major: int, minor: int) -> str:
        texts = [*self._texts(minor, _MECH_CODE)] if minor else []
        return "; ".join(texts or self._texts(major, _GSS_CODE)) or f"status {major:#x}"

    def _texts(self, code: int, kind: int) -> Iterator[str]:
        """What a code means; it may have several texts, which C gives one by one."""
        more = c_uint32()
        while True:
            minor, text = c_uint32(), _Buffer()
            status = self._library.gss_display_status(
                byref(minor), code, kind, byref(_KRB5), byref(more), byref(text)
            )
            if status & _ERRORS:
                return
            yield _bytes(text).decode(errors="replace")
            self._library.gss_release_buffer(byref(minor), byref(text))
            if not more.value:
                return


class GssCredential:
    """Whose keys or tickets these are."""

    def __init__(self, handle: _Handle) -> None:
        self.pointer = handle.pointer
        self._handle = handle


class _GssContext:
    """One exchange of tokens, and what can be said safely once it is through."""

    def __init__(self, library: GssLibrary, credential: GssCredential) -> None:
        self._library = library
        self._credential = credential
        self._handle = _Handle(library, c_void_p(), "gss_delete_sec_context")
        self.is_established = False

    def wrap(self, data: bytes) -> bytes:
        """Signed, and not encrypted."""
        with self._library.output() as wrapped:
            pointer = self._handle.pointer
            self._library.call("gss_wrap", pointer, 0, 0, byref(_input(data)), None, byref(wrapped))
            return _bytes(wrapped)

    def unwrap(self, data: bytes) -> bytes:
        """What the other side has signed; GssError where it has not, or where it says it again."""
        with self._library.output() as plain:
            pointer = self._handle.pointer
            status = self._library.call("gss_unwrap", pointer, byref(_input(data)), byref(plain), None, None)
            if status:
                raise GssError("a message of this exchange comes again, or out of order")
            return _bytes(plain)


class GssAcceptor(_GssContext):
    """The side that asks who the other one is: `peer`, once the exchange is through."""

    peer = ""

    def step(self, token: bytes) -> bytes:
        """What to answer to a token; GssError where it proves nothing."""
        name = c_void_p()
        with self._library.output() as answer:
            try:
                status = self._library.call(
                    "gss_accept_sec_context",
                    byref(self._handle.pointer),
                    self._credential.pointer,
                    byref(_input(token)),
                    None,
                    byref(name),
                    None,
                    byref(answer),
                    None,
                    None,
                    None,
                )
                if status != _CONTINUE_NEEDED:
                    self.peer = self._library.shown(name)
                    self.is_established = True
            finally:
                self._library.release("gss_release_name", name)
            return _bytes(answer)


class GssInitiator(_GssContext):
    """The side that proves who it is, and has the other one prove that it is the service. Blocks at first,
    while the KDC is asked for a ticket."""

    def __init__(self, library: GssLibrary, credential: GssCredential, target: _Handle) -> None:
        super().__init__(library, credential)
        self._target = target

    def step(self, token: bytes) -> bytes:
        """What to say to a token of the other side's, at first to none."""
        flags = c_uint32()
        with self._library.output() as answer:
            status = self._library.call(
                "gss_init_sec_context",
                self._credential.pointer,
                byref(self._handle.pointer),
                self._target.pointer,
                byref(_KRB5),
                _MUTUAL | _REPLAY | _SEQUENCE | _INTEGRITY,
                0,
                None,
                byref(_input(token)) if token else None,
                None,
                byref(answer),
                byref(flags),
                None,
            )
            if status != _CONTINUE_NEEDED:
                if not flags.value & _MUTUAL:
                    raise GssError("the service has not proven who it is")
                self.is_established = True
            return _bytes(answer)


def _input(data: bytes) -> _Buffer:
    buffer = _Buffer(len(data), ctypes.cast(c_char_p(data), c_void_p))
    buffer.kept = data  # C has its address
    return buffer


def _bytes(buffer: _Buffer) -> bytes:
    return ctypes.string_at(buffer.value, buffer.length) if buffer.value else b""
