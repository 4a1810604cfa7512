"""Verifies a token by a library of Python: the key is the one of the set that the token names.

    verify.py LIBRARY JWKS TOKEN ALG

LIBRARY is pyjwt, joserfc or jwcrypto. The issuer, the audience and the end have to be right. Prints the subject, or says why
the token is not valid and exits 1.
"""

import json
import sys

ISSUER, AUDIENCE = "https://id.example.com", "web"


def pyjwt(jwks, token, alg):
    import jwt

    kid = jwt.get_unverified_header(token)["kid"]
    key = jwt.PyJWKSet.from_json(jwks)[kid]
    return jwt.decode(token, key, algorithms=[alg], issuer=ISSUER, audience=AUDIENCE, options={"require": ["exp"]})


def joserfc(jwks, token, alg):
    from joserfc import jwt
    from joserfc.jwk import KeySet

    keys = KeySet.import_key_set(json.loads(jwks))
    decoded = jwt.decode(token, keys, algorithms=[alg])
    claims = jwt.JWTClaimsRegistry(
        exp={"essential": True}, iss={"essential": True, "value": ISSUER}, aud={"essential": True, "value": AUDIENCE}
    )
    claims.validate(decoded.claims)
    return decoded.claims


def jwcrypto(jwks, token, alg):
    from jwcrypto import jwk, jwt

    checked = jwt.JWT(algs=[alg], check_claims={"exp": None, "iss": ISSUER, "aud": AUDIENCE}, expected_type="JWS")
    checked.leeway = 0
    checked.deserialize(token, jwk.JWKSet.from_json(jwks))
    return json.loads(checked.claims)


name, jwks, token, alg = sys.argv[1:]
try:
    with open(jwks) as jwks, open(token) as token:
        print({"pyjwt": pyjwt, "joserfc": joserfc, "jwcrypto": jwcrypto}[name](jwks.read(), token.read().strip(), alg)["sub"])
except Exception as error:  # Each library has classes of its own.
    sys.exit(f"{type(error).__name__}: {error}")
