// Package transit calls Vault's Transit by paths and fields, which is all that the libraries of Vault and OpenBao have.
package transit

import (
	"encoding/base64"
	"errors"
	"fmt"

	. "gabion/interop/kms/clients/report"
)

// Data is the field `data` of an answer.
type Data = map[string]any

// Logical is what both libraries have.
type Logical struct {
	Write  func(path string, fields Data) (Data, error)
	Read   func(path string) (Data, error)
	List   func(path string) (Data, error)
	Delete func(path string) error
}

func second(_ Data, err error) error { return err }

// Calls makes the calls of Transit, with keys whose names begin with prefix.
func (calls Logical) Calls(prefix string) {
	aes, plain := prefix+"-aes", B64("a secret")
	Row("create a key", func() error {
		made, err := calls.Write("transit/keys/"+aes, nil)
		if err != nil {
			return err
		}
		return Same("type", made["type"], "aes256-gcm96")
	})
	Row("list keys", func() error {
		keys, err := calls.List("transit/keys")
		if err != nil {
			return err
		}
		for _, name := range keys["keys"].([]any) {
			if name == aes {
				return nil
			}
		}
		return fmt.Errorf("the list lacks %s", aes)
	})
	Row("read a key", func() error {
		about, err := calls.Read("transit/keys/" + aes)
		if err != nil {
			return err
		}
		return Same("version", about["latest_version"], 1)
	})
	Row("read a missing key", func() error {
		about, err := calls.Read("transit/keys/" + prefix + "-missing")
		if err != nil {
			return err
		}
		return Same("answer", about == nil, true)
	})
	encrypt := func(fields Data) (string, error) {
		made, err := calls.Write("transit/encrypt/"+aes, fields)
		if err != nil {
			return "", err
		}
		text, is := made["ciphertext"].(string)
		if !is {
			return "", errors.New("the answer has no ciphertext")
		}
		return text, nil
	}
	decrypted := func(fields Data) error {
		made, err := calls.Write("transit/decrypt/"+aes, fields)
		if err != nil {
			return err
		}
		return Same("plaintext", made["plaintext"], plain)
	}
	var first string
	Row("encrypt and decrypt", func() (err error) {
		if first, err = encrypt(Data{"plaintext": plain}); err != nil {
			return err
		}
		return errors.Join(Begins("ciphertext", first, "vault:v1:"), decrypted(Data{"ciphertext": first}))
	})
	Row("encrypt with associated data", func() error {
		beside := B64("row 7")
		made, err := encrypt(Data{"plaintext": plain, "associated_data": beside})
		if err != nil {
			return err
		}
		if decrypted(Data{"ciphertext": made}) == nil {
			return errors.New("it is decrypted without them")
		}
		return decrypted(Data{"ciphertext": made, "associated_data": beside})
	})
	Row("encrypt a batch", func() error {
		items := []Data{{"plaintext": plain, "reference": "a"}, {"plaintext": ""}}
		made, err := calls.Write("transit/encrypt/"+aes, Data{"batch_input": items})
		if err != nil {
			return err
		}
		return Same("results", len(made["batch_results"].([]any)), 2)
	})
	Row("rotate and rewrap", func() error {
		if _, err := calls.Write("transit/keys/"+aes+"/rotate", nil); err != nil {
			return err
		}
		made, err := calls.Write("transit/rewrap/"+aes, Data{"ciphertext": first})
		if err != nil {
			return err
		}
		again := made["ciphertext"].(string)
		return errors.Join(Begins("ciphertext", again, "vault:v2:"), decrypted(Data{"ciphertext": again}), decrypted(Data{"ciphertext": first}))
	})
	Row("make a data key", func() error {
		made, err := calls.Write("transit/datakey/plaintext/"+aes, Data{"bits": "256"})
		if err != nil {
			return err
		}
		opened, err := calls.Write("transit/decrypt/"+aes, Data{"ciphertext": made["ciphertext"]})
		if err != nil {
			return err
		}
		return Same("key", opened["plaintext"], made["plaintext"])
	})
	Row("draw random bytes", func() error {
		drawn, err := calls.Write("transit/random/32", Data{"format": "hex"})
		if err != nil {
			return err
		}
		return Same("length", len(drawn["random_bytes"].(string)), 64)
	})
	calls.tags(prefix, aes)
	calls.signatures(prefix)
	Row("configure a key", func() error {
		fields := Data{"min_decryption_version": "2", "deletion_allowed": "true"}
		if _, err := calls.Write("transit/keys/"+aes+"/config", fields); err != nil {
			return err
		}
		if decrypted(Data{"ciphertext": first}) == nil {
			return errors.New("version 1 still decrypts")
		}
		return nil
	})
	Row("delete a key", func() error {
		if err := calls.Delete("transit/keys/" + aes); err != nil {
			return err
		}
		about, err := calls.Read("transit/keys/" + aes)
		return errors.Join(err, Same("answer", about == nil, true))
	})
	Row("make a derived key", func() error {
		return second(calls.Write("transit/keys/"+prefix+"-derived", Data{"derived": true}))
	})
	Row("back a key up", func() error {
		return second(calls.Read("transit/backup/" + prefix + "-ed25519"))
	})
}

// tags makes tags by keys of each kind, and hashes.
func (calls Logical) tags(prefix, aes string) {
	input := B64("message")
	for _, of := range []struct{ name, key, kind, hash string }{
		{"HMAC by an encryption key", aes, "", "sha2-256"},
		{"HMAC by a signing key", prefix + "-tag-ed25519", "ed25519", "sha2-512"},
		{"HMAC with SHA-3", prefix + "-tag-rsa", "rsa-2048", "sha3-256"},
		{"HMAC by a key of the type hmac", prefix + "-tag-hmac", "hmac", "sha2-256"},
	} {
		Row(of.name, func() error {
			if of.kind != "" {
				if _, err := calls.Write("transit/keys/"+of.key, Data{"type": of.kind}); err != nil {
					return err
				}
			}
			made, err := calls.Write("transit/hmac/"+of.key+"/"+of.hash, Data{"input": input})
			if err != nil {
				return err
			}
			for text, wanted := range map[string]bool{"message": true, "another": false} {
				fields := Data{"input": B64(text), "hmac": made["hmac"]}
				verified, err := calls.Write("transit/verify/"+of.key+"/"+of.hash, fields)
				if err != nil {
					return err
				}
				if err := Same("valid", verified["valid"], wanted); err != nil {
					return err
				}
			}
			return nil
		})
	}
	Row("hash", func() error {
		made, err := calls.Write("transit/hash/sha3-256", Data{"input": B64("abc"), "format": "base64"})
		if err != nil {
			return err
		}
		// FIPS 202's example of the message `abc`.
		return Same("sum", made["sum"], "Ophdp0/iJbIEXBcta9OQvYVfCG4+nVJbRr/iRRFDFTI=")
	})
}

// signatures signs and verifies by keys of each kind.
func (calls Logical) signatures(prefix string) {
	for _, of := range []struct {
		name, kind, hash string
		more             Data
	}{
		{"sign by Ed25519", "ed25519", "", nil},
		{"sign by ECDSA", "ecdsa-p256", "", nil},
		{"sign by ECDSA in JWS form", "ecdsa-p256", "", Data{"marshaling_algorithm": "jws"}},
		{"sign by ECDSA with SHA-3", "ecdsa-p384", "sha3-384", nil},
		{"sign by ECDSA with SHA-224", "ecdsa-p521", "sha2-224", nil},
		{"sign by RSA-PSS", "rsa-2048", "sha2-256", Data{"signature_algorithm": "pss"}},
		{"sign by RSA PKCS#1 v1.5 with SHA-3", "rsa-2048", "sha3-512", Data{"signature_algorithm": "pkcs1v15"}},
		{"sign by ML-DSA", "ml-dsa", "", nil},
	} {
		Row(of.name, func() error {
			key, fields := prefix+"-"+of.kind, Data{"type": of.kind}
			if of.kind == "ml-dsa" {
				fields["parameter_set"] = "65"
			}
			if _, err := calls.Write("transit/keys/"+key, fields); err != nil {
				return err
			}
			return calls.Signed(key, of.hash, of.more)
		})
	}
	Row("sign a digest", func() error {
		digest := "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=" // SHA-256 of `abc`
		fields := Data{"input": digest, "prehashed": true}
		made, err := calls.Write("transit/sign/"+prefix+"-ecdsa-p256", fields)
		if err != nil {
			return err
		}
		whole := Data{"input": B64("abc"), "signature": made["signature"]}
		verified, err := calls.Write("transit/verify/"+prefix+"-ecdsa-p256", whole)
		if err != nil {
			return err
		}
		return Same("valid", verified["valid"], true)
	})
	Row("export a public key", func() error {
		made, err := calls.Read("transit/export/public-key/" + prefix + "-ed25519/latest")
		if err != nil {
			return err
		}
		key, err := base64.StdEncoding.DecodeString(made["keys"].(Data)["1"].(string))
		return errors.Join(err, Same("bytes", len(key), 32))
	})
}

// Signed signs and verifies, and verifies nothing of another message.
func (calls Logical) Signed(key, hash string, more Data) error {
	fields := Data{"input": B64("message")}
	for name, value := range more {
		fields[name] = value
	}
	path := "/" + key
	if hash != "" {
		path += "/" + hash
	}
	made, err := calls.Write("transit/sign"+path, fields)
	if err != nil {
		return err
	}
	fields["signature"] = made["signature"]
	for text, wanted := range map[string]bool{"message": true, "another": false} {
		fields["input"] = B64(text)
		verified, err := calls.Write("transit/verify"+path, fields)
		if err != nil {
			return err
		}
		if err := Same("valid", verified["valid"], wanted); err != nil {
			return err
		}
	}
	return nil
}
