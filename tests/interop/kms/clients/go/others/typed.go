package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/vault-client-go"
	"github.com/hashicorp/vault-client-go/schema"

	. "gabion/interop/kms/clients/report"
	"gabion/interop/kms/clients/transit"
)

// fields is the field `data` of an answer, or why there is none.
func fields(answer *vault.Response[transit.Data], err error) (transit.Data, error) {
	if err != nil || answer == nil {
		return nil, err
	}
	return answer.Data, nil
}

// vaultClientGo is github.com/hashicorp/vault-client-go, which was generated of Vault's OpenAPI description.
func vaultClientGo() error {
	client, err := vault.New(vault.WithEnvironment())
	if err != nil {
		return err
	}
	ctx, by := context.Background(), client.Secrets
	input := B64("message")
	Row("health", func() error { return second(fields(client.System.ReadHealthStatus(ctx))) })
	Row("create a key", func() error {
		for _, kind := range []string{"aes256-gcm96", "ecdsa-p256", "ecdsa-p384", "ed25519", "rsa-2048"} {
			request := schema.TransitCreateKeyRequest{Type: kind}
			if _, err := by.TransitCreateKey(ctx, "vcg-"+kind, request); err != nil {
				return err
			}
		}
		return nil
	})
	Row("list keys", func() error {
		answer, err := by.TransitListKeys(ctx)
		if err != nil {
			return err
		}
		for _, name := range answer.Data.Keys {
			if name == "vcg-ed25519" {
				return nil
			}
		}
		return errors.New("the list lacks vcg-ed25519")
	})
	Row("read a key", func() error {
		about, err := fields(by.TransitReadKey(ctx, "vcg-ed25519"))
		return errors.Join(err, Same("type", about["type"], "ed25519"))
	})
	Row("read a missing key", func() error {
		_, err := by.TransitReadKey(ctx, "vcg-missing")
		if !vault.IsErrorStatus(err, 404) {
			return fmt.Errorf("expected the status 404: %w", err)
		}
		return nil
	})
	aes := "vcg-aes256-gcm96"
	decrypted := func(request schema.TransitDecryptRequest) error {
		made, err := fields(by.TransitDecrypt(ctx, aes, request))
		return errors.Join(err, Same("plaintext", made["plaintext"], input))
	}
	var first string
	Row("encrypt and decrypt", func() error {
		made, err := fields(by.TransitEncrypt(ctx, aes, schema.TransitEncryptRequest{Plaintext: input}))
		if err != nil {
			return err
		}
		first = made["ciphertext"].(string)
		return decrypted(schema.TransitDecryptRequest{Ciphertext: first})
	})
	Row("encrypt with associated data", func() error {
		beside := B64("row 7")
		request := schema.TransitEncryptRequest{Plaintext: input, AssociatedData: beside}
		made, err := fields(by.TransitEncrypt(ctx, aes, request))
		if err != nil {
			return err
		}
		return decrypted(schema.TransitDecryptRequest{Ciphertext: made["ciphertext"].(string), AssociatedData: beside})
	})
	Row("encrypt a batch", func() error {
		request := schema.TransitEncryptRequest{BatchInput: []transit.Data{{"plaintext": input}, {"plaintext": ""}}}
		made, err := fields(by.TransitEncrypt(ctx, aes, request))
		if err != nil {
			return err
		}
		return Same("results", len(made["batch_results"].([]any)), 2)
	})
	Row("rotate and rewrap", func() error {
		if _, err := by.TransitRotateKey(ctx, aes, schema.TransitRotateKeyRequest{}); err != nil {
			return err
		}
		made, err := fields(by.TransitRewrap(ctx, aes, schema.TransitRewrapRequest{Ciphertext: first}))
		if err != nil {
			return err
		}
		again := made["ciphertext"].(string)
		return errors.Join(Begins("ciphertext", again, "vault:v2:"), decrypted(schema.TransitDecryptRequest{Ciphertext: again}))
	})
	Row("make a data key", func() error {
		return second(fields(by.TransitGenerateDataKey(ctx, aes, "wrapped", schema.TransitGenerateDataKeyRequest{Bits: 256})))
	})
	Row("draw random bytes", func() error {
		drawn, err := fields(by.TransitGenerateRandom(ctx, schema.TransitGenerateRandomRequest{Bytes: 32, Format: "hex"}))
		if err != nil {
			return err
		}
		return Same("length", len(drawn["random_bytes"].(string)), 64)
	})
	tag := func(key, hash string) error {
		request := schema.TransitGenerateHmacRequest{Input: input, Algorithm: hash}
		made, err := fields(by.TransitGenerateHmac(ctx, key, request))
		if err != nil {
			return err
		}
		verify := schema.TransitVerifyRequest{Input: input, Hmac: made["hmac"].(string), Algorithm: hash}
		verified, err := fields(by.TransitVerify(ctx, key, verify))
		return errors.Join(err, Same("valid", verified["valid"], true))
	}
	Row("HMAC by an encryption key", func() error { return tag(aes, "sha2-256") })
	Row("HMAC by a signing key", func() error { return tag("vcg-ed25519", "sha2-512") })
	Row("HMAC with SHA-3", func() error { return tag("vcg-rsa-2048", "sha3-384") })
	Row("hash", func() error {
		made, err := fields(by.TransitHash(ctx, schema.TransitHashRequest{Input: B64("abc"), Algorithm: "sha2-224"}))
		// FIPS 180-4's example of the message `abc`.
		return errors.Join(err, Same("sum", made["sum"], "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"))
	})
	for _, of := range []struct {
		name, key string
		form      schema.TransitSignRequest
	}{
		{"sign by Ed25519", "ed25519", schema.TransitSignRequest{}},
		{"sign by ECDSA", "ecdsa-p256", schema.TransitSignRequest{}},
		{"sign by ECDSA in JWS form", "ecdsa-p256", schema.TransitSignRequest{MarshalingAlgorithm: "jws"}},
		{"sign by ECDSA with SHA-3", "ecdsa-p384", schema.TransitSignRequest{HashAlgorithm: "sha3-384"}},
		{"sign by ECDSA with SHA-224", "ecdsa-p256", schema.TransitSignRequest{HashAlgorithm: "sha2-224"}},
		{"sign by RSA-PSS", "rsa-2048", schema.TransitSignRequest{SignatureAlgorithm: "pss", SaltLength: "hash"}},
		{"sign by RSA PKCS#1 v1.5 with SHA-3", "rsa-2048", schema.TransitSignRequest{SignatureAlgorithm: "pkcs1v15", HashAlgorithm: "sha3-512"}},
	} {
		Row(of.name, func() error {
			of.form.Input = input
			made, err := fields(by.TransitSign(ctx, "vcg-"+of.key, of.form))
			if err != nil {
				return err
			}
			for text, wanted := range map[string]bool{"message": true, "another": false} {
				verified, err := fields(by.TransitVerify(ctx, "vcg-"+of.key, schema.TransitVerifyRequest{
					Input: B64(text), Signature: made["signature"].(string), HashAlgorithm: of.form.HashAlgorithm,
					MarshalingAlgorithm: of.form.MarshalingAlgorithm, SignatureAlgorithm: of.form.SignatureAlgorithm, SaltLength: of.form.SaltLength,
				}))
				if err := errors.Join(err, Same("valid", verified["valid"], wanted)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	Row("export a public key", func() error {
		return second(fields(by.TransitExportKey(ctx, "vcg-ed25519", "public-key")))
	})
	Row("configure a key", func() error {
		request := schema.TransitConfigureKeyRequest{MinDecryptionVersion: 2, DeletionAllowed: true}
		return second(fields(by.TransitConfigureKey(ctx, aes, request)))
	})
	Row("delete a key", func() error { return second(fields(by.TransitDeleteKey(ctx, aes))) })
	Row("make a derived key", func() error {
		return second(fields(by.TransitCreateKey(ctx, "vcg-derived", schema.TransitCreateKeyRequest{Derived: true})))
	})
	Row("back a key up", func() error { return second(fields(by.TransitBackUpKey(ctx, "vcg-ed25519"))) })
	Row("look up the token", func() error { return second(fields(client.Auth.TokenLookUpSelf(ctx))) })
	Row("ask for capabilities", func() error {
		request := schema.QueryTokenSelfCapabilitiesRequest{Paths: []string{"transit/encrypt/vcg-ed25519"}}
		_, err := client.System.QueryTokenSelfCapabilities(ctx, request)
		return err
	})
	Row("ask who leads", func() error { _, err := client.System.LeaderStatus(ctx); return err })
	Row("wrap the answer", func() error {
		_, err := by.TransitGenerateRandom(ctx, schema.TransitGenerateRandomRequest{}, vault.WithResponseWrapping(60_000_000_000))
		return err
	})
	return nil
}
