package main

import (
	"bytes"
	"context"
	"errors"
	"os"

	wrapping "github.com/hashicorp/go-kms-wrapping/v2"
	"github.com/hashicorp/go-kms-wrapping/wrappers/transit/v2"
	vault "github.com/hashicorp/vault/api"
	"github.com/tink-crypto/tink-go-hcvault/v2/integration/hcvault"
	"gocloud.dev/secrets/hashivault"

	. "gabion/interop/kms/clients/report"
)

// made makes a key that encrypts.
func made(name string) (*vault.Client, error) {
	client, err := vault.NewClient(vault.DefaultConfig())
	if err != nil {
		return nil, err
	}
	_, err = client.Logical().Write("transit/keys/"+name, nil)
	return client, err
}

// rotated gives a key another version.
func rotated(client *vault.Client, name string) error {
	_, err := client.Logical().Write("transit/keys/"+name+"/rotate", nil)
	return err
}

// unequal is an error unless both are the same bytes.
func unequal(got, wanted []byte) error {
	if !bytes.Equal(got, wanted) {
		return errors.New("something else was decrypted")
	}
	return nil
}

// tinkAEAD is Tink's AEAD over Vault, github.com/tink-crypto/tink-go-hcvault.
func tinkAEAD() error {
	client, err := made("tink")
	if err != nil {
		return err
	}
	aead, err := hcvault.NewAEAD("/transit/keys/tink", client.Logical())
	if err != nil {
		return err
	}
	var first []byte
	Row("encrypt and decrypt", func() error {
		for _, plain := range [][]byte{[]byte("a secret"), {}} {
			sealed, err := aead.Encrypt(plain, nil)
			if err != nil {
				return err
			}
			opened, err := aead.Decrypt(sealed, nil)
			if err := errors.Join(err, unequal(opened, plain)); err != nil {
				return err
			}
			first = sealed
		}
		return nil
	})
	Row("encrypt with associated data", func() error {
		sealed, err := aead.Encrypt([]byte("a secret"), []byte("row 7"))
		if err != nil {
			return err
		}
		if _, err := aead.Decrypt(sealed, []byte("row 8")); err == nil {
			return errors.New("it is decrypted with other data")
		}
		opened, err := aead.Decrypt(sealed, []byte("row 7"))
		return errors.Join(err, unequal(opened, []byte("a secret")))
	})
	Row("rotate and decrypt", func() error {
		if err := rotated(client, "tink"); err != nil {
			return err
		}
		opened, err := aead.Decrypt(first, nil)
		return errors.Join(err, unequal(opened, []byte{}))
	})
	return nil
}

// gocloudKeeper is the Go CDK's Keeper over Vault, gocloud.dev/secrets/hashivault.
func gocloudKeeper() error {
	client, err := made("gocloud")
	if err != nil {
		return err
	}
	ctx := context.Background()
	keeper := hashivault.OpenKeeper(client, "gocloud", nil)
	defer keeper.Close()
	plain := []byte("a secret")
	var first []byte
	Row("encrypt and decrypt", func() (err error) {
		if first, err = keeper.Encrypt(ctx, plain); err != nil {
			return err
		}
		opened, err := keeper.Decrypt(ctx, first)
		return errors.Join(err, unequal(opened, plain))
	})
	Row("rotate and decrypt", func() error {
		if err := rotated(client, "gocloud"); err != nil {
			return err
		}
		opened, err := keeper.Decrypt(ctx, first)
		return errors.Join(err, unequal(opened, plain))
	})
	Row("read a damaged ciphertext", func() error {
		if _, err := keeper.Decrypt(ctx, append(bytes.Clone(first), 'x')); err == nil {
			return errors.New("it is decrypted")
		}
		return nil
	})
	return nil
}

// transitWrapper is the seal by Transit of Vault, OpenBao, Boundary and Consul, github.com/hashicorp/go-kms-wrapping.
func transitWrapper() error {
	client, err := made("unseal")
	if err != nil {
		return err
	}
	ctx, wrapper := context.Background(), transit.NewWrapper()
	settings := map[string]string{
		"address": os.Getenv("VAULT_ADDR"), "token": os.Getenv("VAULT_TOKEN"), "tls_ca_cert": os.Getenv("VAULT_CACERT"),
		"mount_path": "transit/", "key_name": "unseal", "disable_renewal": "true",
	}
	if _, err := wrapper.SetConfig(ctx, wrapping.WithConfigMap(settings)); err != nil {
		return err
	}
	plain := []byte("a root key")
	var first *wrapping.BlobInfo
	Row("encrypt and decrypt", func() (err error) {
		if first, err = wrapper.Encrypt(ctx, plain); err != nil {
			return err
		}
		opened, err := wrapper.Decrypt(ctx, first)
		return errors.Join(err, unequal(opened, plain))
	})
	Row("rotate and decrypt", func() error {
		if err := rotated(client, "unseal"); err != nil {
			return err
		}
		opened, err := wrapper.Decrypt(ctx, first)
		return errors.Join(err, unequal(opened, plain))
	})
	return nil
}
