"""Vault's Transit as hvac calls it: one group of calls each run.

    transit.py GROUP

VAULT_ADDR, VAULT_TOKEN and VAULT_CACERT say where. What is compared is what Vault's pages promise, or, where docs/guide/kms-transit.md
names a difference, that difference: then the call has to fail, and to say why. Exits 1 with the first thing that is wrong.
"""

import base64
import os
import sys

import hvac
from hvac import exceptions


def text(data):
    return base64.b64encode(data).decode()


def expect(what, got, wanted):
    if got != wanted:
        raise SystemExit(f"{what}: {got!r}, not {wanted!r}")


def refused(what, call, kind=exceptions.InvalidRequest, says=""):
    """The call has to fail, by hvac's class for its status, and name the reason."""
    try:
        answer = call()
    except kind as error:
        if says not in str(error) or not str(error):
            raise SystemExit(f"{what}: refused by {str(error)!r}, which does not say {says!r}") from None
        return
    except exceptions.VaultError as error:
        raise SystemExit(f"{what}: {type(error).__name__} {error}, not {kind.__name__}") from None
    raise SystemExit(f"{what}: {getattr(answer, 'text', answer)}, and it was to be refused")


client = hvac.Client(
    url=os.environ["VAULT_ADDR"], token=os.environ["VAULT_TOKEN"], verify=os.environ["VAULT_CACERT"]
)
transit = client.secrets.transit
MESSAGE = text(b"what is signed")


def state():
    """What hvac asks before it does anything."""
    expect("authenticated", client.is_authenticated(), True)
    expect("initialized", client.sys.is_initialized(), True)
    expect("sealed", client.sys.is_sealed(), False)
    expect("health by HEAD", client.sys.read_health_status().status_code, 200)
    health = client.sys.read_health_status(method="GET")
    expect("health", (health["initialized"], health["sealed"], health["standby"]), (True, False, False))
    expect("seal status", client.seal_status["sealed"], False)
    mounts = client.sys.list_mounted_secrets_engines()
    expect("the mount", mounts["data"]["transit/"]["type"], "transit")
    about = client.auth.token.lookup_self()["data"]
    expect("the token's time", about["ttl"] > 0, True)
    stranger = hvac.Client(url=client.url, token="hvs.nobody", verify=os.environ["VAULT_CACERT"])
    expect("a stranger", stranger.is_authenticated(), False)
    refused("a stranger's call", lambda: stranger.secrets.transit.list_keys(), exceptions.Forbidden)


def keys():
    """A key's life."""
    made = transit.create_key("life", key_type="ed25519")
    expect("create", getattr(made, "status_code", 200) in (200, 204), True)
    # Whoever makes sure that there is one may do so twice, as with Vault.
    transit.create_key("life", key_type="ed25519")
    refused("another type", lambda: transit.create_key("life", key_type="ecdsa-p256"))
    about = transit.read_key("life")["data"]
    expect("type", about["type"], "ed25519")
    for field in ("name", "latest_version", "min_decryption_version", "min_encryption_version", "deletion_allowed",
                  "exportable", "derived", "allow_plaintext_backup", "keys", "supports_signing",
                  "supports_encryption", "supports_decryption", "supports_derivation", "min_available_version",
                  "auto_rotate_period", "imported_key"):
        if field not in about:
            raise SystemExit(f"read_key has no `{field}`")
    expect("raw public key", len(base64.b64decode(about["keys"]["1"]["public_key"])), 32)
    transit.rotate_key("life")
    about = transit.read_key("life")["data"]
    expect("versions", (about["latest_version"], sorted(about["keys"])), (2, ["1", "2"]))
    expect("list", "life" in transit.list_keys()["data"]["keys"], True)
    transit.update_key_configuration("life", min_decryption_version=2)
    about = transit.read_key("life")["data"]
    expect("what may still verify", (about["min_decryption_version"], sorted(about["keys"])), (2, ["2"]))
    transit.update_key_configuration("life", min_decryption_version=1, min_encryption_version=0)
    expect("and again", sorted(transit.read_key("life")["data"]["keys"]), ["1", "2"])
    refused("a version that is not there", lambda: transit.update_key_configuration("life", min_decryption_version=9))
    refused("delete", lambda: transit.delete_key("life"), says="deletion_allowed")
    transit.update_key_configuration("life", deletion_allowed=True)
    transit.delete_key("life")
    refused("read what is gone", lambda: transit.read_key("life"), exceptions.InvalidPath)
    for name in ("..", "a b", "a/b", "ä", "a\0b", "n" * 500):
        try:
            transit.create_key(name, key_type="ed25519")
        except exceptions.VaultError as error:
            expect(f"the status for {name!r}", type(error).__name__ in ("InvalidRequest", "InvalidPath"), True)
        else:
            raise SystemExit(f"the name {name!r} was taken")


def signing():
    """Each type of key that hvac knows and that signs."""
    for kind, curve in (("ed25519", None), ("ecdsa-p256", "sha2-256"), ("ecdsa-p384", "sha2-384"), ("ecdsa-p521", "sha2-512")):
        name = f"sign-{kind}"
        transit.create_key(name, key_type=kind)
        signed_by_any(name, curve)


def mldsa():
    """ML-DSA, by Vault's name with a parameter set and by OpenBao's: hvac's own list of types lacks both."""
    for name, body in (
        ("pq-vault", {"type": "ml-dsa", "parameter_set": "65"}),
        ("pq-vault-87", {"type": "ml-dsa", "parameter_set": "87"}),
        ("pq-openbao", {"type": "mldsa-44"}),
        ("pq-ours", {"type": "slh-dsa-sha2-128f"}),
    ):
        client.adapter.post(url=f"/v1/transit/keys/{name}", json=body)
        signed_by_any(name, None)


def signed_by_any(name, curve):
    """A key that signs, through a rotation. `curve`: the hash that its signatures ask for."""

    def sign(**more):
        return transit.sign_data(name, hash_input=MESSAGE, hash_algorithm=curve, **more)["data"]

    def verify(signature, message=MESSAGE):
        asked = {"hash_input": message, "signature": signature, "hash_algorithm": curve}
        return transit.verify_signed_data(name, **asked)["data"]["valid"]

    first = sign()["signature"]
    expect("prefix", first.startswith("vault:v1:"), True)
    expect(f"{name} verifies", verify(first), True)
    expect("another message", verify(first, text(b"another")), False)
    transit.rotate_key(name)
    second = sign()
    expect("the newest signs", (second["key_version"], second["signature"][:9]), (2, "vault:v2:"))
    expect("both verify", (verify(first), verify(second["signature"])), (True, True))
    expect("said of another version", verify(second["signature"].replace("v2", "v1")), False)
    refused("a version that there is not", lambda: sign(key_version=99))
    refused("garbage", lambda: verify("nonsense"))
    refused("a misspelt field", lambda: client.adapter.post(
        url=f"/v1/transit/sign/{name}", json={"input": MESSAGE, "kye_version": 1}), says="kye_version")
    items = [{"input": MESSAGE, "reference": "a"}, {"input": text(b"another")}, {"input": "*"}]
    done = transit.sign_data(name, batch_input=items, hash_algorithm=curve)["data"]["batch_results"]
    expect("items", [sorted(item) for item in done],
           [["key_version", "reference", "signature"], ["key_version", "signature"], ["error"]])
    items = [{"input": MESSAGE, "signature": done[0]["signature"]}, {"input": MESSAGE, "signature": done[1]["signature"]}]
    # hvac has no batches of verification.
    body = {"batch_input": items, **({"hash_algorithm": curve} if curve else {})}
    done = client.adapter.post(url=f"/v1/transit/verify/{name}", json=body)
    expect("verdicts", [item["valid"] for item in done["data"]["batch_results"]], [True, False])
    # What libraries for RSA send whatever the key is: Vault's page says that it is of RSA alone.
    expect("signature_algorithm", verify(sign(signature_algorithm="pkcs1v15")["signature"]), True)


def ciphers():
    """Encrypting, the default type first."""
    plain = text(b"a secret")
    for name, kind in (("data", None), ("chacha", "chacha20-poly1305")):
        transit.create_key(name, key_type=kind)
        encrypted_by_any(name, plain)
    # A difference: encrypt makes no key.
    refused("a key that is not there", lambda: transit.encrypt_data("not-there", plaintext=plain))


def encrypted_by_any(name, plain):
    """A key that encrypts, through a rotation."""

    def encrypt(**more):
        return transit.encrypt_data(name, plaintext=plain, **more)["data"]

    def decrypt(made, **more):
        return transit.decrypt_data(name, ciphertext=made, **more)["data"]["plaintext"]

    first = encrypt()["ciphertext"]
    expect("prefix", first.startswith("vault:v1:"), True)
    expect("decrypts", decrypt(first), plain)
    transit.rotate_key(name)
    expect("the old one, too", decrypt(first), plain)
    again = transit.rewrap_data(name, ciphertext=first)["data"]["ciphertext"]
    expect("rewrapped", (again[:9], decrypt(again)), ("vault:v2:", plain))
    beside = encrypt(associated_data=text(b"row 7"))["ciphertext"]
    expect("with what stands beside it", decrypt(beside, associated_data=text(b"row 7")), plain)
    refused("without it", lambda: decrypt(beside))
    refused("said of another version", lambda: decrypt(again.replace("v2", "v1")))
    refused("cut", lambda: decrypt(again[:-8]))
    items = [{"plaintext": plain, "reference": "a"}, {"plaintext": "*"}, {}]
    # As Vault: a bad request, with what came of each item.
    try:
        done = transit.encrypt_data(name, plaintext=None, batch_input=items)["data"]["batch_results"]
        expect("the status of a batch with items that failed", done, None)
    except exceptions.InvalidRequest as error:
        done = error.json["data"]["batch_results"]
    expect("items", [sorted(item) for item in done], [["ciphertext", "key_version", "reference"], ["error"], ["error"]])
    done = transit.decrypt_data(name, ciphertext=None, batch_input=[{"ciphertext": done[0]["ciphertext"]}])
    expect("an item", done["data"]["batch_results"], [{"plaintext": plain}])
    made = transit.generate_data_key(name, key_type="plaintext")["data"]
    expect("a key for data", (len(base64.b64decode(made["plaintext"])), decrypt(made["ciphertext"])), (32, made["plaintext"]))
    for bits in (128, 256, 512):
        made = transit.generate_data_key(name, key_type="wrapped", bits=bits)["data"]
        expect("wrapped", ("plaintext" in made, len(base64.b64decode(decrypt(made["ciphertext"])))), (False, bits // 8))
    transit.update_key_configuration(name, min_decryption_version=2)
    refused("what no version may decrypt any more", lambda: decrypt(first))
    expect("an empty one", transit.decrypt_data(name, ciphertext=transit.encrypt_data(name, plaintext="")["data"]["ciphertext"])["data"]["plaintext"], "")


def tags():
    """HMAC, random bytes."""
    client.adapter.post(url="/v1/transit/keys/tags", json={"type": "hmac"})
    made = transit.generate_hmac("tags", hash_input=MESSAGE)["data"]["hmac"]
    expect("prefix", made[:9], "vault:v1:")

    def verify(tag, message=MESSAGE):
        return transit.verify_signed_data("tags", hash_input=message, hmac=tag)["data"]["valid"]

    expect("verifies", (verify(made), verify(made, text(b"another"))), (True, False))
    transit.rotate_key("tags")
    expect("the old one, too", verify(made), True)
    drawn = [transit.generate_random_bytes(n_bytes=48)["data"]["random_bytes"] for _ in range(2)]
    expect("random", (len(base64.b64decode(drawn[0])), drawn[0] == drawn[1]), (48, False))
    expect("in hexadecimal", len(transit.generate_random_bytes(16, output_format="hex")["data"]["random_bytes"]), 32)


def differences():
    """What docs/guide/kms-transit.md says is not there has to say so, and to leave nothing behind."""
    calls = {
        "derived": lambda: transit.create_key("no", derived=True),
        "convergent_encryption": lambda: transit.create_key("no", derived=True, convergent_encryption=True),
        "allow_plaintext_backup": lambda: transit.create_key("no", allow_plaintext_backup=True),
    }
    for name, call in calls.items():
        refused(name, call, says="not supported")
    expect("nothing came of it", "no" in names(), False)
    transit.create_key("there", key_type="ed25519")
    for name, call in {
        "backup": lambda: transit.backup_key("there"),
        "restore": lambda: transit.restore_key(text(b"x")),
        "a key that is not exportable": lambda: transit.export_key("there", "signing-key"),
    }.items():
        refused(name, call, exceptions.VaultError)


def names():
    try:
        return transit.list_keys()["data"]["keys"]
    except exceptions.InvalidPath:
        return []


if __name__ == "__main__":
    {f.__name__: f for f in (state, keys, signing, mldsa, ciphers, tags, differences)}[sys.argv[1]]()
