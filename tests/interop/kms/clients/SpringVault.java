import java.net.URI;
import java.util.ArrayList;
import java.util.List;

import org.springframework.core.io.FileSystemResource;
import org.springframework.http.client.ClientHttpRequestFactory;
import org.springframework.vault.authentication.SessionManager;
import org.springframework.vault.authentication.SimpleSessionManager;
import org.springframework.vault.authentication.TokenAuthentication;
import org.springframework.vault.client.ClientHttpRequestFactoryFactory;
import org.springframework.vault.client.VaultEndpoint;
import org.springframework.vault.core.VaultTemplate;
import org.springframework.vault.core.VaultTransitOperations;
import org.springframework.vault.support.Ciphertext;
import org.springframework.vault.support.ClientOptions;
import org.springframework.vault.support.Hmac;
import org.springframework.vault.support.Plaintext;
import org.springframework.vault.support.Signature;
import org.springframework.vault.support.SslConfiguration;
import org.springframework.vault.support.TransitKeyType;
import org.springframework.vault.support.VaultHmacRequest;
import org.springframework.vault.support.VaultSignRequest;
import org.springframework.vault.support.VaultSignatureVerificationRequest;
import org.springframework.vault.support.VaultTransitContext;
import org.springframework.vault.support.VaultTransitKeyConfiguration;
import org.springframework.vault.support.VaultTransitKeyCreationRequest;

/**
 * Calls the service by spring-vault-core. Prints a line for each call: its name, a tab, and `ok`, `refused` (the service says
 * `unsupported`) or `failed`.
 *
 * <pre>java -cp 'FOLDER/*' SpringVault.java</pre>
 *
 * VAULT_ADDR, VAULT_TOKEN and VAULT_CACERT say where. Exits 1 if a call failed.
 */
public class SpringVault {
    interface Call {
        void run() throws Exception;
    }

    static boolean isFailed;

    static void row(String name, Call call) {
        String verdict = "ok";
        try {
            call.run();
        } catch (Exception | AssertionError error) {
            String text = String.valueOf(error.getMessage());
            verdict = text.contains("unsupported") ? "refused" : "failed";
            isFailed |= verdict.equals("failed");
            System.err.println(name + ": " + error.getClass().getSimpleName() + " " + text.replaceAll("\\s+", " "));
        }
        System.out.println(name + "\t" + verdict);
    }

    static void same(Object got, Object wanted) {
        if (!wanted.equals(got)) throw new AssertionError("got " + got + ", expected " + wanted);
    }

    static void begins(String text, String prefix) {
        if (!text.startsWith(prefix)) throw new AssertionError(text + " does not begin with " + prefix);
    }

    static VaultTemplate template() throws Exception {
        String authority = System.getenv("VAULT_CACERT");
        SslConfiguration tls = SslConfiguration.forTrustStore(
                SslConfiguration.KeyStoreConfiguration.of(new FileSystemResource(authority)).withStoreType("PEM"));
        ClientHttpRequestFactory requests = ClientHttpRequestFactoryFactory.create(new ClientOptions(), tls);
        VaultEndpoint endpoint = VaultEndpoint.from(URI.create(System.getenv("VAULT_ADDR")));
        SessionManager session = new SimpleSessionManager(new TokenAuthentication(System.getenv("VAULT_TOKEN")));
        return new VaultTemplate(endpoint, requests, session);
    }

    static VaultTransitOperations transit;

    static void signed(String key, String hash, String padding) {
        VaultSignRequest.VaultSignRequestBuilder sign = VaultSignRequest.builder().plaintext(Plaintext.of("message"));
        if (hash != null) sign.hashAlgorithm(hash);
        if (padding != null) sign.signatureAlgorithm(padding);
        Signature made = transit.sign(key, sign.build());
        for (String text : List.of("message", "another")) {
            VaultSignatureVerificationRequest.VaultSignatureVerificationRequestBuilder verify =
                    VaultSignatureVerificationRequest.builder().plaintext(Plaintext.of(text)).signature(made);
            if (hash != null) verify.hashAlgorithm(hash);
            if (padding != null) verify.signatureAlgorithm(padding);
            same(transit.verify(key, verify.build()).isValid(), text.equals("message"));
        }
    }

    static void tagged(String key, String hash) {
        Hmac made = transit.getHmac(key, VaultHmacRequest.builder().plaintext(Plaintext.of("message")).algorithm(hash).build());
        VaultSignatureVerificationRequest verify = VaultSignatureVerificationRequest.builder()
                .plaintext(Plaintext.of("message")).hmac(made).hashAlgorithm(hash).build();
        same(transit.verify(key, verify).isValid(), true);
    }

    public static void main(String[] args) throws Exception {
        VaultTemplate vault = template();
        transit = vault.opsForTransit();
        row("health", () -> same(vault.opsForSys().health().isSealed(), false));
        row("create a key", () -> {
            transit.createKey("spring-aes");
            for (String type : List.of("ed25519", "ecdsa-p256", "ecdsa-p384", "rsa-2048", "hmac")) {
                transit.createKey("spring-" + type, VaultTransitKeyCreationRequest.ofKeyType(type));
            }
        });
        row("list keys", () -> same(transit.getKeys().contains("spring-aes"), true));
        row("read a key", () -> same(transit.getKey("spring-aes").getLatestVersion(), 1));
        row("read a missing key", () -> same(transit.getKey("spring-missing") == null, true));
        List<String> first = new ArrayList<>();
        row("encrypt and decrypt", () -> {
            first.add(transit.encrypt("spring-aes", "a secret"));
            same(transit.decrypt("spring-aes", first.get(0)), "a secret");
        });
        row("encrypt a batch", () -> {
            List<Plaintext> items = List.of(Plaintext.of("a secret"), Plaintext.of("another"));
            List<Ciphertext> made = new ArrayList<>();
            transit.encrypt("spring-aes", items).forEach(one -> made.add(one.get()));
            same(transit.decrypt("spring-aes", made).get(1).getAsString(), "another");
        });
        row("rotate and rewrap", () -> {
            transit.rotate("spring-aes");
            String made = transit.rewrap("spring-aes", first.get(0));
            begins(made, "vault:v2:");
            same(transit.decrypt("spring-aes", made), "a secret");
        });
        row("HMAC by an encryption key", () -> tagged("spring-aes", "sha2-256"));
        row("HMAC by a signing key", () -> tagged("spring-ed25519", "sha2-512"));
        row("HMAC with SHA-3", () -> tagged("spring-rsa-2048", "sha3-256"));
        row("HMAC by a key of the type hmac", () -> tagged("spring-hmac", "sha2-256"));
        row("sign by Ed25519", () -> signed("spring-ed25519", null, null));
        row("sign by ECDSA", () -> signed("spring-ecdsa-p256", null, null));
        row("sign by ECDSA with SHA-3", () -> signed("spring-ecdsa-p384", "sha3-384", null));
        row("sign by ECDSA with SHA-224", () -> signed("spring-ecdsa-p256", "sha2-224", null));
        row("sign by RSA-PSS", () -> signed("spring-rsa-2048", "sha2-256", "pss"));
        row("sign by RSA PKCS#1 v1.5 with SHA-3", () -> signed("spring-rsa-2048", "sha3-512", "pkcs1v15"));
        row("configure a key", () -> transit.configureKey("spring-aes",
                VaultTransitKeyConfiguration.builder().minDecryptionVersion(2).deletionAllowed(true).build()));
        row("delete a key", () -> transit.deleteKey("spring-aes"));
        row("make a derived key", () -> transit.createKey("spring-derived",
                VaultTransitKeyCreationRequest.builder().derived(true).build()));
        row("encrypt with a context", () -> transit.encrypt("spring-rsa-2048", "a secret".getBytes(),
                VaultTransitContext.builder().context("context".getBytes()).build()));
        row("export a private key", () -> transit.exportKey("spring-ed25519", TransitKeyType.SIGNING_KEY));
        row("look up the token", () -> same(vault.read("auth/token/lookup-self") != null, true));
        System.exit(isFailed ? 1 : 0);
    }
}
