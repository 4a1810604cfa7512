"""Calls the service by hvac. Prints a line for each call: its name, a tab, and `ok`, `refused` (the service says `unsupported`) or
`failed`.

    python by-hvac.py

VAULT_ADDR, VAULT_TOKEN and VAULT_CACERT say where. Exits 1 if a call failed. ../transit.py tries hvac's functions further.
"""

import base64
import os
import sys

import hvac

client = hvac.Client(url=os.environ["VAULT_ADDR"], token=os.environ["VAULT_TOKEN"], verify=os.environ["VAULT_CACERT"])
transit = client.secrets.transit
failures = 0


def text(plain):
    return base64.b64encode(plain).decode()


MESSAGE = text(b"message")


def row(name, call):
    global failures
    verdict = "ok"
    try:
        call()
    except Exception as error:  # noqa: BLE001 - whatever it is, the call did not do what it had to
        verdict = "refused" if "unsupported" in str(error) else "failed"
        failures += verdict == "failed"
        print(f"{name}: {type(error).__name__} {error}", file=sys.stderr)
    print(f"{name}\t{verdict}", flush=True)


def same(got, wanted):
    if got != wanted:
        raise AssertionError(f"got {got!r}, expected {wanted!r}")


def create():
    transit.create_key("hvac-aes")
    for kind in ("ed25519", "ecdsa-p256", "ecdsa-p384", "ecdsa-p521", "rsa-2048"):
        transit.create_key(f"hvac-{kind}", key_type=kind)
    # hvac's own list of types lacks both.
    for kind, more in (("hmac", {}), ("ml-dsa", {"parameter_set": "65"})):
        client.write_data(f"transit/keys/hvac-{kind}", data={"type": kind, **more})


def missing():
    try:
        transit.read_key("hvac-missing")
    except hvac.exceptions.InvalidPath:
        return
    raise AssertionError("a key that is missing was read")


def decrypted(ciphertext, **more):
    return transit.decrypt_data("hvac-aes", ciphertext=ciphertext, **more)["data"]["plaintext"]


def encrypted(**more):
    return transit.encrypt_data("hvac-aes", plaintext=MESSAGE, **more)["data"]["ciphertext"]


def associated():
    beside = text(b"row 7")
    same(decrypted(encrypted(associated_data=beside), associated_data=beside), MESSAGE)


def batch():
    made = transit.encrypt_data("hvac-aes", plaintext="", batch_input=[{"plaintext": MESSAGE}, {"plaintext": ""}])
    same(len(made["data"]["batch_results"]), 2)


def rewrap():
    first = encrypted()
    transit.rotate_key("hvac-aes")
    made = transit.rewrap_data("hvac-aes", ciphertext=first)["data"]["ciphertext"]
    same((made[:9], decrypted(made)), ("vault:v2:", MESSAGE))


def datakey():
    made = transit.generate_data_key("hvac-aes", key_type="plaintext")["data"]
    same(decrypted(made["ciphertext"]), made["plaintext"])


def tagged(key, algorithm):
    made = transit.generate_hmac(key, hash_input=MESSAGE, algorithm=algorithm)["data"]["hmac"]
    for message, wanted in ((MESSAGE, True), (text(b"another"), False)):
        verified = transit.verify_signed_data(key, hash_input=message, hmac=made, hash_algorithm=algorithm)
        same(verified["data"]["valid"], wanted)


def signed(key, **more):
    made = transit.sign_data(key, hash_input=MESSAGE, **more)["data"]["signature"]
    for message, wanted in ((MESSAGE, True), (text(b"another"), False)):
        verified = transit.verify_signed_data(key, hash_input=message, signature=made, **more)
        same(verified["data"]["valid"], wanted)


def hashed():
    made = transit.hash_data(hash_input=text(b"abc"), algorithm="sha2-256")["data"]["sum"]
    same(made, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")


row("health", lambda: same(client.sys.read_health_status(method="GET")["sealed"], False))
row("create a key", create)
row("list keys", lambda: same("hvac-aes" in transit.list_keys()["data"]["keys"], True))
row("read a key", lambda: same(transit.read_key("hvac-aes")["data"]["latest_version"], 1))
row("read a missing key", missing)
row("encrypt and decrypt", lambda: same(decrypted(encrypted()), MESSAGE))
row("encrypt with associated data", associated)
row("encrypt a batch", batch)
row("rotate and rewrap", rewrap)
row("make a data key", datakey)
row("draw random bytes",
    lambda: same(len(transit.generate_random_bytes(32, output_format="hex")["data"]["random_bytes"]), 64))
row("HMAC by an encryption key", lambda: tagged("hvac-aes", "sha2-256"))
row("HMAC by a signing key", lambda: tagged("hvac-ed25519", "sha2-512"))
row("HMAC by a key of the type hmac", lambda: tagged("hvac-hmac", "sha2-256"))
row("hash", hashed)
row("sign by Ed25519", lambda: signed("hvac-ed25519"))
row("sign by ECDSA", lambda: signed("hvac-ecdsa-p256"))
row("sign by ECDSA in JWS form", lambda: signed("hvac-ecdsa-p256", marshaling_algorithm="jws"))
row("sign by ECDSA with SHA-224", lambda: signed("hvac-ecdsa-p521", hash_algorithm="sha2-224"))
row("sign by RSA-PSS", lambda: signed("hvac-rsa-2048", signature_algorithm="pss"))
row("sign by ML-DSA", lambda: signed("hvac-ml-dsa"))
row("configure a key",
    lambda: transit.update_key_configuration("hvac-aes", min_decryption_version=2, deletion_allowed=True))
row("delete a key", lambda: transit.delete_key("hvac-aes"))
row("make a derived key", lambda: transit.create_key("hvac-derived", derived=True))
row("back a key up", lambda: transit.backup_key("hvac-ed25519"))
row("look up the token", client.auth.token.lookup_self)
row("renew the token", client.auth.token.renew_self)
row("ask for capabilities", lambda: client.sys.get_capabilities(["transit/encrypt/hvac-ed25519"]))
row("ask who leads", client.sys.read_leader_status)
sys.exit(failures > 0)
