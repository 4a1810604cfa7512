// Calls the service by github.com/hashicorp/vault/api, which Vault's own command uses. Prints a line for each call: its name, a tab,
// and `ok`, `refused` (the service says `unsupported`) or `failed`.
//
//	vaultapi
//
// VAULT_ADDR, VAULT_TOKEN and VAULT_CACERT say where. Exits 1 if a call failed.
package main

import (
	vault "github.com/hashicorp/vault/api"

	. "gabion/interop/kms/clients/report"
	"gabion/interop/kms/clients/transit"
)

func main() { Exit(calls()) }

// calls makes every call.
func calls() error {
	client, err := vault.NewClient(vault.DefaultConfig())
	if err != nil {
		return err
	}
	of := func(secret *vault.Secret, err error) (transit.Data, error) {
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
	paths.Calls("va")
	Row("look up the token", func() error {
		_, err := client.Auth().Token().LookupSelf()
		return err
	})
	Row("renew the token", func() error {
		_, err := client.Auth().Token().RenewSelf(0)
		return err
	})
	Row("ask for capabilities", func() error {
		may, err := client.Sys().CapabilitiesSelf("transit/sign/va-ed25519")
		if err != nil {
			return err
		}
		return Same("capabilities", may, []string{"update"})
	})
	Row("ask who leads", func() error { _, err := client.Sys().Leader(); return err })
	Row("use a namespace", func() error {
		other, err := client.Clone()
		if err != nil {
			return err
		}
		other.SetToken(client.Token())
		other.SetNamespace("va-other")
		_, err = other.Logical().Write("transit/keys/va-own", transit.Data{"type": "ed25519"})
		return err
	})
	Row("wrap the answer", func() error {
		other, err := client.Clone()
		if err != nil {
			return err
		}
		other.SetToken(client.Token())
		other.SetWrappingLookupFunc(func(string, string) string { return "60s" })
		_, err = other.Logical().Write("transit/random/16", nil)
		return err
	})
	return nil
}
