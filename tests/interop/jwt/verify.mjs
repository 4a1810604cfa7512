// Verifies a token by jose for Node: the key is the one of the set that the token names.
//
//     verify.mjs JWKS TOKEN ALG
//
// The issuer, the audience and the end have to be right. Prints the subject, or says why the token is not valid and exits 1.
// JOSE_MODULES is the folder of jose.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { createLocalJWKSet, jwtVerify } = await import(
  pathToFileURL(`${process.env.JOSE_MODULES}/jose/dist/webapi/index.js`)
);
const [jwks, token, alg] = process.argv.slice(2);
try {
  const keys = createLocalJWKSet(JSON.parse(readFileSync(jwks)));
  const { payload } = await jwtVerify(readFileSync(token, "utf8").trim(), keys, {
    algorithms: [alg],
    issuer: "https://id.example.com",
    audience: "web",
    typ: "JWT",
    requiredClaims: ["exp"],
  });
  console.log(payload.sub);
} catch (error) {
  console.error(`${error.code}: ${error.message}`);
  process.exit(1);
}
