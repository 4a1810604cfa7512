package main

import (
	"context"
	"errors"
	"os"

	bao "github.com/openbao/openbao/api/v2"

	. "gabion/interop/kms/clients/report"
	"gabion/interop/kms/clients/transit"
)

// openbaoAPI is github.com/openbao/openbao/api/v2.
func openbaoAPI() error {
	config := bao.DefaultConfig()
	if err := config.ConfigureTLS(&bao.TLSConfig{CACert: os.Getenv("VAULT_CACERT")}); err != nil {
		return err
	}
	config.Address = os.Getenv("VAULT_ADDR")
	client, err := bao.NewClient(config)
	if err != nil {
		return err
	}
	client.SetToken(os.Getenv("VAULT_TOKEN"))
	of := func(secret *bao.Secret, err error) (transit.Data, error) {
		if err != nil || secret == nil {
			return nil, err
		}
		return secret.Data, nil
	}
	by := client.Logical()
	paths := transit.Logical{
		Write:  func(path string, fields transit.Data) (transit.Data, error) { return of(by.Write(path, fields)) },
		Read:   func(path string) (transit.Data, error) { return of(by.Read(path)) },
		List:   func(path string) (transit.Data, error) { return of(by.List(path)) },
		Delete: func(path string) error { _, err := by.Delete(path); return err },
	}
	Row("health", func() error {
		health, err := client.Sys().Health()
		if err != nil {
			return err
		}
		return Same("sealed", health.Sealed, false)
	})
	paths.Calls("bao")
	Row("sign by mldsa-65 (OpenBao's name)", func() error {
		if _, err := paths.Write("transit/keys/bao-mldsa", transit.Data{"type": "mldsa-65"}); err != nil {
			return err
		}
		return paths.Signed("bao-mldsa", "", nil)
	})
	Row("delete softly and restore", func() error {
		err := errors.Join(
			paths.Delete("transit/keys/bao-mldsa/soft-delete"),
			second(paths.Write("transit/keys/bao-mldsa/soft-delete-restore", nil)),
		)
		if err != nil {
			return err
		}
		return paths.Signed("bao-mldsa", "", nil)
	})
	Row("list a page", func() error {
		page, err := by.ListPageWithContext(context.Background(), "transit/keys", "bao", 2)
		if err != nil {
			return err
		}
		return Same("keys", len(page.Data["keys"].([]any)), 2)
	})
	Row("look up the token", func() error {
		_, err := client.Auth().Token().LookupSelf()
		return err
	})
	Row("ask for capabilities", func() error {
		_, err := client.Sys().CapabilitiesSelf("transit/encrypt/bao-aes")
		return err
	})
	return nil
}

func second(_ transit.Data, err error) error { return err }
