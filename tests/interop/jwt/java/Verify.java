import com.nimbusds.jose.JWSAlgorithm;
import com.nimbusds.jose.JWSVerifier;
import com.nimbusds.jose.crypto.Ed25519Verifier;
import com.nimbusds.jose.crypto.factories.DefaultJWSVerifierFactory;
import com.nimbusds.jose.jwk.AsymmetricJWK;
import com.nimbusds.jose.jwk.JWK;
import com.nimbusds.jose.jwk.JWKSet;
import com.nimbusds.jose.jwk.OctetKeyPair;
import com.nimbusds.jwt.JWTClaimsSet;
import com.nimbusds.jwt.SignedJWT;
import com.nimbusds.jwt.proc.DefaultJWTClaimsVerifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;

/**
 * Verifies a token by Nimbus JOSE+JWT: the key is the one of the set that the token names.
 *
 * <p>{@code Verify JWKS TOKEN ALG}. The issuer, the audience and the end have to be right. Prints the subject, or says why the
 * token is not valid and exits 1.
 */
public final class Verify {
    public static void main(String[] args) {
        try {
            JWKSet set = JWKSet.parse(Files.readString(Path.of(args[0])));
            SignedJWT token = SignedJWT.parse(Files.readString(Path.of(args[1])).trim());
            if (!token.getHeader().getAlgorithm().equals(JWSAlgorithm.parse(args[2]))) {
                throw new IllegalArgumentException("another algorithm: " + token.getHeader().getAlgorithm());
            }
            JWK key = set.getKeyByKeyId(token.getHeader().getKeyID());
            if (key == null) {
                throw new IllegalArgumentException("no key is called " + token.getHeader().getKeyID());
            }
            JWSVerifier verifier = key instanceof OctetKeyPair pair
                ? new Ed25519Verifier(pair)
                : new DefaultJWSVerifierFactory().createJWSVerifier(token.getHeader(), ((AsymmetricJWK) key).toPublicKey());
            if (!token.verify(verifier)) {
                throw new IllegalArgumentException("the signature is wrong");
            }
            JWTClaimsSet exact = new JWTClaimsSet.Builder().issuer("https://id.example.com").build();
            DefaultJWTClaimsVerifier<?> claims = new DefaultJWTClaimsVerifier<>("web", exact, Set.of("exp"));
            claims.setMaxClockSkew(0);
            claims.verify(token.getJWTClaimsSet(), null);
            System.out.println(token.getJWTClaimsSet().getSubject());
        } catch (Exception | NoClassDefFoundError error) {
            System.err.println(error);
            System.exit(1);
        }
    }
}
