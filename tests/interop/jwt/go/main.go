// Verifies a token by a library of Go: the key is the one of the set that the token names.
//
//	verify LIBRARY JWKS TOKEN ALG
//
// LIBRARY is go-jose or golang-jwt. The latter reads no sets; go-jose reads the set for both. The issuer, the audience and the
// end have to be right. Prints the subject, or says why the token is not valid and exits 1.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	josejwt "github.com/go-jose/go-jose/v4/jwt"
	"github.com/golang-jwt/jwt/v5"
)

const issuer, audience = "https://id.example.com", "web"

// key returns the key of a set that has a name.
func key(set *jose.JSONWebKeySet, kid string) (any, error) {
	found := set.Key(kid)
	if len(found) != 1 {
		return nil, fmt.Errorf("%d keys are called %q", len(found), kid)
	}
	return found[0].Key, nil
}

func goJose(set *jose.JSONWebKeySet, token, alg string) (string, error) {
	parsed, err := josejwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(alg)})
	if err != nil {
		return "", err
	}
	public, err := key(set, parsed.Headers[0].KeyID)
	if err != nil {
		return "", err
	}
	var claims josejwt.Claims
	if err := parsed.Claims(public, &claims); err != nil {
		return "", err
	}
	expected := josejwt.Expected{Issuer: issuer, AnyAudience: josejwt.Audience{audience}, Time: time.Now()}
	return claims.Subject, claims.ValidateWithLeeway(expected, 0)
}

func golangJWT(set *jose.JSONWebKeySet, token, alg string) (string, error) {
	parsed, err := jwt.Parse(token, func(token *jwt.Token) (any, error) {
		kid, _ := token.Header["kid"].(string)
		return key(set, kid)
	}, jwt.WithValidMethods([]string{alg}), jwt.WithIssuer(issuer), jwt.WithAudience(audience), jwt.WithExpirationRequired())
	if err != nil {
		return "", err
	}
	return parsed.Claims.GetSubject()
}

func run(library, jwks, tokenFile, alg string) (string, error) {
	text, err := os.ReadFile(jwks)
	if err != nil {
		return "", err
	}
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return "", err
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(text, &set); err != nil {
		return "", err
	}
	if library == "go-jose" {
		return goJose(&set, strings.TrimSpace(string(token)), alg)
	}
	return golangJWT(&set, strings.TrimSpace(string(token)), alg)
}

func main() {
	subject, err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(subject)
}
