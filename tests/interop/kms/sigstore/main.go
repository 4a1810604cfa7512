// Signs and verifies by sigstore's signer for Vault (hashivault), as cosign does: a key of each type that it knows is
// made, signs and verifies, a changed message and a signature of another key are refused, and the public key that it
// fetches verifies what was signed, offline. After a rotation the next version signs, and the old signature verifies.
//
//	sigstore
//
// VAULT_ADDR, VAULT_TOKEN and VAULT_CACERT say where, as they do for cosign. Prints a line for each key, and exits 1
// where something is wrong.
package main

import (
	"bytes"
	"context"
	"crypto"
	"errors"
	"fmt"
	"os"

	"github.com/hashicorp/vault/api"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/kms/hashivault"
	"github.com/sigstore/sigstore/pkg/signature/options"
)

// A type of key, and the hash that its signatures take.
var kinds = []struct {
	algorithm string
	hash      crypto.Hash
}{
	{hashivault.AlgorithmECDSAP256, crypto.SHA256},
	{hashivault.AlgorithmECDSAP384, crypto.SHA384},
	{hashivault.AlgorithmECDSAP521, crypto.SHA512},
	{hashivault.AlgorithmED25519, crypto.Hash(0)},
}

func main() {
	isFailed := false
	for _, kind := range kinds {
		if err := try(kind.algorithm, kind.hash); err != nil {
			isFailed = true
			fmt.Printf("%s: %v\n", kind.algorithm, err)
			continue
		}
		fmt.Printf("%s: signed and verified\n", kind.algorithm)
	}
	if isFailed {
		os.Exit(1)
	}
}

var message = []byte("what is signed")

// try signs with a key of its own, rotates it as whoever runs Vault would, and signs with the next version.
func try(algorithm string, hash crypto.Hash) error {
	name := "sigstore-" + algorithm
	signer, err := hashivault.LoadSignerVerifier("hashivault://"+name, hash)
	if err != nil {
		return err
	}
	public, err := signer.CreateKey(context.Background(), algorithm)
	if err != nil {
		return fmt.Errorf("make the key: %w", err)
	}
	first, err := signed(signer, public, hash, "1")
	if err != nil {
		return err
	}
	vault, err := api.NewClient(nil)
	if err != nil {
		return err
	}
	if _, err := vault.Logical().Write("transit/keys/"+name+"/rotate", nil); err != nil {
		return fmt.Errorf("rotate: %w", err)
	}
	next, err := hashivault.LoadSignerVerifier("hashivault://"+name, hash)
	if err != nil {
		return err
	}
	public, err = next.PublicKey()
	if err != nil {
		return fmt.Errorf("fetch the next public key: %w", err)
	}
	if _, err := signed(next, public, hash, "2"); err != nil {
		return fmt.Errorf("after a rotation: %w", err)
	}
	if err := verified(next, first, message, "1"); err != nil {
		return fmt.Errorf("verify the old signature: %w", err)
	}
	if verified(next, first, message, "2") == nil {
		return errors.New("a signature was taken for one of another version")
	}
	return nil
}

// signed is a signature that the service and the public key verify, and not of another message.
func signed(signer *hashivault.SignerVerifier, public crypto.PublicKey, hash crypto.Hash, version string) ([]byte, error) {
	made, err := signer.SignMessage(bytes.NewReader(message))
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	if err := verified(signer, made, message, version); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	if verified(signer, made, []byte("another"), version) == nil {
		return nil, errors.New("a signature of another message was taken")
	}
	offline, err := signature.LoadVerifier(public, hash)
	if err != nil {
		return nil, fmt.Errorf("take the public key: %w", err)
	}
	if err := offline.VerifySignature(bytes.NewReader(made), bytes.NewReader(message)); err != nil {
		return nil, fmt.Errorf("verify by the public key: %w", err)
	}
	return made, nil
}

func verified(signer *hashivault.SignerVerifier, made, of []byte, version string) error {
	return signer.VerifySignature(bytes.NewReader(made), bytes.NewReader(of), options.WithKeyVersion(version))
}
