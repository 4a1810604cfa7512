// Calls the service by node-vault. Prints a line for each call: its name, a tab, and `ok`, `refused` (the service says
// `unsupported`) or `failed`.
//
//   NODE_PATH=FOLDER/node_modules NODE_EXTRA_CA_CERTS=$VAULT_CACERT node node-vault.js
//
// VAULT_ADDR and VAULT_TOKEN say where. Exits 1 if a call failed.
'use strict';
const assert = require('node:assert');
const vault = require('node-vault')({ apiVersion: 'v1' });

const b64 = (text) => Buffer.from(text).toString('base64');
const plain = b64('a secret');

async function row(name, call) {
  let verdict = 'ok';
  try {
    await call();
  } catch (error) {
    const text = `${error.message} ${JSON.stringify(error.response?.body ?? '')}`;
    verdict = text.includes('unsupported') ? 'refused' : 'failed';
    if (verdict === 'failed') process.exitCode = 1;
    console.error(`${name}: ${text.replace(/\s+/g, ' ')}`);
  }
  console.log(`${name}\t${verdict}`);
}

const decrypted = async (ciphertext, more = {}) =>
  (await vault.decryptData({ name: 'node-aes', ciphertext, ...more })).data.plaintext;

// Signs and verifies, and verifies nothing of another message. The library has no function for either.
async function signed(key, path = '', more = {}) {
  const made = await vault.write(`transit/sign/${key}${path}`, { input: b64('message'), ...more });
  for (const [text, wanted] of [['message', true], ['another', false]]) {
    const fields = { input: b64(text), signature: made.data.signature, ...more };
    const verified = await vault.write(`transit/verify/${key}${path}`, fields);
    assert.strictEqual(verified.data.valid, wanted);
  }
}

async function tagged(key, hash) {
  const made = await vault.write(`transit/hmac/${key}`, { input: b64('message'), algorithm: hash });
  const fields = { input: b64('message'), hmac: made.data.hmac, algorithm: hash };
  assert.strictEqual((await vault.write(`transit/verify/${key}`, fields)).data.valid, true);
}

async function main() {
  await row('health', async () => assert.strictEqual((await vault.health()).sealed, false));
  await row('create a key', async () => {
    const types = ['ed25519', 'ecdsa-p256', 'ecdsa-p384', 'ecdsa-p521', 'rsa-2048', 'hmac'];
    await vault.transitCreateKey({ name: 'node-aes' });
    for (const type of types) await vault.transitCreateKey({ name: `node-${type}`, type });
    await vault.transitCreateKey({ name: 'node-ml-dsa', type: 'ml-dsa', parameter_set: '65' });
  });
  await row('list keys', async () => assert((await vault.transitListKeys()).data.keys.includes('node-aes')));
  await row('read a key', async () =>
    assert.strictEqual((await vault.transitReadKey({ name: 'node-aes' })).data.latest_version, 1));
  await row('read a missing key', () =>
    assert.rejects(vault.transitReadKey({ name: 'node-missing' }), (error) => error.response.statusCode === 404));
  let first;
  await row('encrypt and decrypt', async () => {
    first = (await vault.encryptData({ name: 'node-aes', plaintext: plain })).data.ciphertext;
    assert.strictEqual(await decrypted(first), plain);
  });
  await row('encrypt with associated data', async () => {
    const beside = { associated_data: b64('row 7') };
    const made = await vault.encryptData({ name: 'node-aes', plaintext: plain, ...beside });
    assert.strictEqual(await decrypted(made.data.ciphertext, beside), plain);
    await assert.rejects(decrypted(made.data.ciphertext));
  });
  await row('encrypt a batch', async () => {
    const made = await vault.encryptData({ name: 'node-aes', batch_input: [{ plaintext: plain }, { plaintext: '' }] });
    assert.strictEqual(made.data.batch_results.length, 2);
  });
  await row('rotate and rewrap', async () => {
    await vault.write('transit/keys/node-aes/rotate', {});
    const made = await vault.rewrapData({ name: 'node-aes', ciphertext: first });
    assert(made.data.ciphertext.startsWith('vault:v2:'));
    assert.strictEqual(await decrypted(made.data.ciphertext), plain);
  });
  await row('make a data key', async () => {
    const made = (await vault.write('transit/datakey/plaintext/node-aes', { bits: 256 })).data;
    assert.strictEqual(await decrypted(made.ciphertext), made.plaintext);
  });
  await row('draw random bytes', async () =>
    assert.strictEqual((await vault.write('transit/random/32', { format: 'hex' })).data.random_bytes.length, 64));
  await row('HMAC by an encryption key', () => tagged('node-aes', 'sha2-256'));
  await row('HMAC by a signing key', () => tagged('node-ed25519', 'sha2-512'));
  await row('HMAC with SHA-3', () => tagged('node-rsa-2048', 'sha3-256'));
  await row('HMAC by a key of the type hmac', () => tagged('node-hmac', 'sha2-256'));
  await row('hash', async () => {
    const made = await vault.write('transit/hash/sha3-224', { input: b64('abc') });
    // FIPS 202's example of the message `abc`.
    assert.strictEqual(made.data.sum, 'e642824c3f8cf24ad09234ee7d3c766fc9a3a5168d0c94ad73b46fdf');
  });
  await row('sign by Ed25519', () => signed('node-ed25519'));
  await row('sign by ECDSA', () => signed('node-ecdsa-p256'));
  await row('sign by ECDSA in JWS form', () => signed('node-ecdsa-p256', '', { marshaling_algorithm: 'jws' }));
  await row('sign by ECDSA with SHA-3', () => signed('node-ecdsa-p384', '/sha3-384'));
  await row('sign by ECDSA with SHA-224', () => signed('node-ecdsa-p521', '/sha2-224'));
  await row('sign by RSA-PSS', () => signed('node-rsa-2048', '', { signature_algorithm: 'pss' }));
  await row('sign by RSA PKCS#1 v1.5 with SHA-3', () =>
    signed('node-rsa-2048', '/sha3-512', { signature_algorithm: 'pkcs1v15' }));
  await row('sign by ML-DSA', () => signed('node-ml-dsa'));
  await row('export a public key', async () =>
    assert((await vault.read('transit/export/public-key/node-ed25519/latest')).data.keys['1']));
  await row('configure a key', () =>
    vault.write('transit/keys/node-aes/config', { min_decryption_version: 2, deletion_allowed: true }));
  await row('delete a key', () => vault.transitDeleteKey({ name: 'node-aes' }));
  await row('make a derived key', () => vault.transitCreateKey({ name: 'node-derived', derived: true }));
  await row('back a key up', () => vault.read('transit/backup/node-ed25519'));
  await row('look up the token', () => vault.tokenLookupSelf());
  await row('renew the token', () => vault.tokenRenewSelf());
  await row('ask who leads', () => vault.leader());
}

main();
