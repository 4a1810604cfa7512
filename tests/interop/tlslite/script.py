"""A client of TLS 1.3 that follows the protocol but for one thing: what a test does to one of its
messages. It is tlslite-ng's, which has ML-KEM hybrids and verifies ML-DSA by other people's pure
Python, so that a handshake goes on after a post-quantum part was changed. The groups of ML-KEM alone and
the private hybrids, which it lacks, are put together here of its parts.

    script.py PORT REFERENCE GROUP

runs each case against the server under test and against the reference, in that order, and asks that the
outcome is the case's own and that both servers give the same. REFERENCE is - for a group that the
reference lacks. The servers answer a line with the line in reverse, as `openssl s_server -rev` does. Prints
what differs and, as its last line, "N passed, N failed"; exits 1 when one failed.
"""

import socket
import sys

from kyber_py.ml_kem import ML_KEM_512, ML_KEM_768, ML_KEM_1024
from tlslite import handshakesettings, tlsconnection
from tlslite.api import HandshakeSettings, TLSConnection
from tlslite.constants import (AlertDescription, ContentType, ExtensionType, GroupName, HandshakeType,
                               SignatureScheme)
from tlslite.errors import (TLSAbruptCloseError, TLSIllegalParameterException, TLSLocalAlert,
                            TLSRemoteAlert)
from tlslite.extensions import ClientKeyShareExtension, KeyShareEntry
from tlslite.keyexchange import KEMKeyExchange
from tlslite.messages import ClientHello, Finished, KeyUpdate, Message

WAIT_SECONDS = 20
STANDARD = ["x25519mlkem768", "secp256r1mlkem768", "secp384r1mlkem1024", "secp256r1", "x25519", "secp384r1"]

# What tlslite-ng lacks: number, group of the curve and length of its share, ML-KEM and the lengths of its
# encapsulation key and ciphertext.
ADDED = {
    "mlkem512": (0x0200, None, 0, ML_KEM_512, 800, 768),
    "mlkem768": (0x0201, None, 0, ML_KEM_768, 1184, 1088),
    "mlkem1024": (0x0202, None, 0, ML_KEM_1024, 1568, 1568),
    "secp256r1mlkem512": (0x11E9, GroupName.secp256r1, 65, ML_KEM_512, 800, 768),
    "secp384r1mlkem768": (0x2F4C, GroupName.secp384r1, 97, ML_KEM_768, 1184, 1088),
    "secp521r1mlkem1024": (0x2F4D, GroupName.secp521r1, 133, ML_KEM_1024, 1568, 1568),
}


class AddedKeyExchange(KEMKeyExchange):
    """One of those, as tlslite-ng calls it: the curve's part comes first, in the secret too."""

    def __init__(self, group, _version):
        self.group = group
        _, self._classic_group, self.curve_len, self.kem, self.key_len, self.ciphertext_len = next(
            row for row in ADDED.values() if row[0] == group)

    def _group_to_params(self):
        return self.curve_len, self.key_len, self.ciphertext_len, False, self.kem

    def get_random_private_key(self):
        curve = self._classic_group and tlsconnection.ECDHKeyExchange(self._classic_group, (3, 4))
        return self.kem.keygen(), curve and curve.get_random_private_key()

    def calc_public_value(self, private, point_format="uncompressed"):
        if self._classic_group is None:
            return bytearray(private[0][0])
        return super().calc_public_value(private, point_format)

    def calc_shared_key(self, private, key_encaps):
        if self._classic_group is not None:
            return super().calc_shared_key(private, key_encaps)
        if len(key_encaps) != self.ciphertext_len:
            raise TLSIllegalParameterException("a ciphertext of another length")
        return self.kem.decaps(private[0][1], bytes(key_encaps))


def add_groups():
    known = tlsconnection.KEMKeyExchange

    def chosen(group, version):
        added = any(group == row[0] for row in ADDED.values())
        return (AddedKeyExchange if added else known)(group, version)

    tlsconnection.KEMKeyExchange = chosen
    for name, (number, *_) in ADDED.items():
        setattr(GroupName, name, number)
        GroupName.allKEM.append(number)
        GroupName.all.append(number)
        for names in (handshakesettings.CURVE_NAMES, handshakesettings.ALL_CURVE_NAMES,
                      handshakesettings.TLS13_PERMITTED_GROUPS):
            names.append(name)


add_groups()


class Client(TLSConnection):
    """Hands each message to `change` before it leaves: a function of the message that gives what is
    sent instead, which is also what goes into the transcript."""

    def __init__(self, sock, change):
        super().__init__(sock)
        self.change = change

    def _sendMsg(self, msg, randomizeFirstBlock=True, update_hashes=True):
        # What was queued has been changed already.
        changed = self.change(self, msg) if update_hashes else msg
        yield from super()._sendMsg(changed, randomizeFirstBlock, update_hashes)

    def _queue_message(self, msg):
        super()._queue_message(self.change(self, msg))


def connect(port, change, settings, session=None):
    """One connection: what the server answered to a line, or the alert it sent. The session as well."""
    sock = socket.create_connection(("127.0.0.1", port), WAIT_SECONDS)
    sock.settimeout(WAIT_SECONDS)
    client = Client(sock, change)
    try:
        client.handshakeClientCert(settings=settings, session=session, serverName="localhost")
        answer = ask(client)
        if answer != LINE[::-1]:
            return ("an answer of %r" % answer, None)
        negotiated = GroupName.toRepr(client.ecdhCurve) + " " + scheme(client)
        return (negotiated + (" resumed" if client.resumed else ""), client.session)
    except TLSRemoteAlert as alert:
        return (AlertDescription.toStr(alert.description), None)
    except TLSLocalAlert as alert:
        return ("we refuse: " + AlertDescription.toStr(alert.description), None)
    except TLSAbruptCloseError:
        return ("closed without a word", None)
    except ConnectionResetError:
        return ("reset", None)
    finally:
        sock.close()


LINE = "hello"


def scheme(client):
    """What the server signed with."""
    return SignatureScheme.toRepr(client.serverSigAlg)


def ask(client):
    client.write(bytearray(LINE.encode() + b"\n"))
    answer = bytearray()
    while not answer.endswith(b"\n"):
        more = client.read(max=256, min=1)
        if not more:
            break
        answer += more
    return answer.decode().strip()


def wanting(group, shares=None):
    """Settings of a client that knows `group` and sends shares for it, or for what is asked."""
    settings = HandshakeSettings()
    settings.minVersion = settings.maxVersion = (3, 4)
    settings.eccCurves = [group] + [name for name in STANDARD if name != group]
    settings.dhGroups = []
    settings.keyShares = [group] if shares is None else shares
    settings.ticket_count = 0
    return settings


def unchanged(_client, message):
    return message


def to(kind, change, nth=1):
    """Changes the nth message of a kind."""
    seen = [0]

    def found(client, message):
        if not isinstance(message, kind):
            return message
        seen[0] += 1
        if seen[0] != nth:
            return message
        return change(client, message) or message

    return found


def to_share(change, nth=1):
    """Changes the bytes of the first key share."""
    def changed(_client, hello):
        entry = hello.getExtension(ExtensionType.key_share).client_shares[0]
        entry.key_exchange = change(bytearray(entry.key_exchange))

    return to(ClientHello, changed, nth)


def to_shares(change, nth=1):
    """Changes the list of key shares, or puts another in its place."""
    def changed(_client, hello):
        extension = hello.getExtension(ExtensionType.key_share)
        extension.client_shares = change(list(extension.client_shares))

    return to(ClientHello, changed, nth)


def to_extensions(change, nth=1):
    """Changes the list of extensions."""
    def changed(_client, hello):
        hello.extensions = change(list(hello.extensions))

    return to(ClientHello, changed, nth)


def to_bytes(kind, change, nth=1):
    """Changes a message's bytes after its header of four, whose length is set anew."""
    def changed(_client, message):
        written = message.write()
        body = change(bytearray(written[4:]))
        return Message(ContentType.handshake,
                       bytearray(written[:1]) + len(body).to_bytes(3, "big") + body)

    return to(kind, changed, nth)


def fresh(group):
    """A key share for a group by its number's name, whose private half nobody uses."""
    return TLSConnection._genKeyShareEntry(getattr(GroupName, group), (3, 4))


def flipped(octets):
    octets[0] ^= 1
    return octets


def without(kind):
    return lambda extensions: [e for e in extensions if e.extType != kind]


def moved(kind, place):
    """An extension, moved to the front or the back."""
    def change(extensions):
        one = [e for e in extensions if e.extType == kind]
        others = without(kind)(extensions)
        return one + others if place == "front" else others + one

    return change


def in_records_of(size):
    def change(client, message):
        if isinstance(message, ClientHello):
            client.recordSize = size
        return message

    return change


def cases(name):
    """Name, settings, change, and the outcomes that the standard allows (RFC 8446, the section beside
    it; sizes: draft-ietf-tls-ecdhe-mlkem)."""
    group = name.lower()
    other = "secp256r1mlkem768" if group == "x25519mlkem768" else "x25519mlkem768"
    good = [group + " mldsa65"]
    parameter, decode = ["illegal_parameter"], ["decode_error"]
    malformed = parameter + decode
    # The server's flight is under a secret that we don't have.
    wrong_key = ["we refuse: bad_record_mac"]
    # Zeros are an encapsulation key (FIPS 203, section 7.2), but no point, and no X25519 secret comes of them.
    zeros = wrong_key if group in ADDED and ADDED[group][1] is None else parameter

    yield "as it should be", wanting(group), unchanged, good
    yield "no share, so a retry", wanting(group, []), unchanged, good
    yield "a share for a classical group beside it", wanting(group, [group, "x25519"]), unchanged, good
    yield "records of 100 bytes", wanting(group), in_records_of(100), good
    yield "key_share first", wanting(group), to_extensions(moved(ExtensionType.key_share, "front")), good
    yield "key_share last", wanting(group), to_extensions(moved(ExtensionType.key_share, "back")), good

    # 4.2.8: shares.
    share = {
        "a byte short": (lambda s: s[:-1], malformed),
        "a byte long": (lambda s: s + b"\0", malformed),
        "empty": (lambda s: s[:0], malformed),
        "doubled": (lambda s: s + s, malformed),
        "all zero": (lambda s: bytearray(len(s)), zeros),
        "all ones": (lambda s: bytearray(b"\xff" * len(s)), parameter),
    }
    for what, (change, outcome) in share.items():
        yield "share " + what, wanting(group), to_share(change), outcome
        yield "after a retry: share " + what, wanting(group, []), to_share(change, 2), outcome
    yield ("the share of another key", wanting(group),
           to_share(lambda _: fresh(group).key_exchange), wrong_key)
    yield ("after a retry: the share of another key", wanting(group, []),
           to_share(lambda _: fresh(group).key_exchange, 2), wrong_key)
    yield ("another group's share under this label", wanting(group),
           to_share(lambda _: fresh(other).key_exchange), malformed)
    yield ("this share under another group's label", wanting(group),
           to_shares(lambda shares: [relabelled(shares[0], other)]), malformed)
    yield "no shares at all", wanting(group), to_shares(lambda _: []), good
    yield ("no key_share extension", wanting(group),
           to_extensions(without(ExtensionType.key_share)), ["missing_extension"])
    yield ("after a retry: no key_share extension", wanting(group, []),
           to_extensions(without(ExtensionType.key_share), 2),
           ["missing_extension", "illegal_parameter"])
    yield ("after a retry: no share", wanting(group, []),
           to_shares(lambda _: [], 2), parameter + decode + ["handshake_failure"])
    yield ("after a retry: another group's share", wanting(group, []),
           to_shares(lambda _: [fresh(other)], 2), parameter)
    yield ("after a retry: two shares", wanting(group, []),
           to_shares(lambda shares: shares + [fresh(other)], 2), parameter)
    yield ("no supported_groups extension", wanting(group),
           to_extensions(without(ExtensionType.supported_groups)), ["missing_extension"])
    yield ("a share of a group that is not in supported_groups", wanting(group),
           to(ClientHello, only_groups([other])), parameter)
    yield ("key_share twice", wanting(group),
           to_extensions(lambda e: e + [x for x in e if x.extType == ExtensionType.key_share]), parameter)
    yield ("a list of shares shorter than it says", wanting(group),
           to_extensions(cut_key_share), decode)

    # 4.4.4: what proves the key.
    yield "Finished with a bit flipped", wanting(group), to_bytes(Finished, flipped), ["decrypt_error"]
    yield ("Finished a byte short", wanting(group), to_bytes(Finished, lambda b: b[:-1]),
           ["decrypt_error", "decode_error"])
    yield ("Finished a byte long", wanting(group), to_bytes(Finished, lambda b: b + b"\0"),
           ["decrypt_error", "decode_error"])
    yield ("ClientHello instead of Finished", wanting(group),
           to(Finished, lambda _c, m: Message(ContentType.handshake, hello_again())),
           ["unexpected_message"])
    yield ("KeyUpdate instead of Finished", wanting(group),
           to(Finished, lambda _c, m: KeyUpdate().create(0)), ["unexpected_message"])


def relabelled(entry, group):
    return KeyShareEntry().create(getattr(GroupName, group), entry.key_exchange, entry.private)


def only_groups(names):
    def change(_client, hello):
        hello.getExtension(ExtensionType.supported_groups).create([getattr(GroupName, n) for n in names])

    return change


def cut_key_share(extensions):
    """The key_share extension with its list's length two more than there is."""
    for extension in extensions:
        if extension.extType == ExtensionType.key_share:
            octets = bytearray(extension.extData)
            octets[:2] = (len(octets)).to_bytes(2, "big")
            return [CutShares(octets) if e is extension else e for e in extensions]
    return extensions


class CutShares(ClientKeyShareExtension):
    """A key_share extension of given bytes."""

    def __init__(self, octets):
        super().__init__()
        self.octets = octets
        self.client_shares = []

    @property
    def extData(self):
        return self.octets


def hello_again():
    return bytearray([HandshakeType.client_hello, 0, 0, 0])


def main():
    port, reference, name = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    passed = failed = 0
    for what, settings, change, allowed in cases(name):
        outcome, _ = connect(port, change, settings)
        expected = "not asked"
        if reference != "-":
            # A change counts messages, so the reference gets one of its own.
            other = next(c for c in cases(name) if c[0] == what)
            expected, _ = connect(int(reference), other[2], other[1])
        if outcome in allowed and (reference == "-" or outcome == expected):
            passed += 1
        else:
            failed += 1
            print(f"{name}, {what}: {outcome}; OpenSSL's own: {expected}; allowed: {', '.join(allowed)}")
    # The server works on.
    after, _ = connect(port, unchanged, wanting(name.lower()))
    if after == name.lower() + " mldsa65":
        passed += 1
    else:
        failed += 1
        print(f"{name}, after all of them: {after}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
