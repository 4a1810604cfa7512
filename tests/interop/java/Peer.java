// One side of a TLS 1.3 connection for tests/interop/tls.sh, over BouncyCastle's JSSE.
//
//   Peer server PORT STORE      answers connections one after another; STORE is PKCS#12, password "p"
//   Peer client PORT CA GROUP   sends a line and prints the first line of the answer

import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.security.KeyStore;
import java.security.SecureRandom;
import java.security.Security;
import java.security.cert.CertificateFactory;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLServerSocket;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;
import org.bouncycastle.jce.provider.BouncyCastleProvider;
import org.bouncycastle.jsse.BCSSLParameters;
import org.bouncycastle.jsse.BCSSLSocket;
import org.bouncycastle.jsse.provider.BouncyCastleJsseProvider;

public class Peer {
    static final String[] GROUPS = {
        "X25519MLKEM768", "SecP256r1MLKEM768", "SecP384r1MLKEM1024", "MLKEM512", "MLKEM768",
        "MLKEM1024", "secp256r1", "secp384r1",
    };

    public static void main(String[] args) throws Exception {
        Security.insertProviderAt(new BouncyCastleProvider(), 1);
        Security.insertProviderAt(new BouncyCastleJsseProvider(), 2);
        if (args[0].equals("server")) {
            server(Integer.parseInt(args[1]), args[2]);
        } else {
            client(Integer.parseInt(args[1]), args[2], args[3]);
        }
    }

    static SSLContext context(KeyStore keys, KeyStore roots) throws Exception {
        KeyManagerFactory km = KeyManagerFactory.getInstance("PKIX", "BCJSSE");
        TrustManagerFactory tm = TrustManagerFactory.getInstance("PKIX", "BCJSSE");
        if (keys != null) {
            km.init(keys, "p".toCharArray());
        }
        if (roots != null) {
            tm.init(roots);
        }
        SSLContext context = SSLContext.getInstance("TLSv1.3", "BCJSSE");
        context.init(
            keys == null ? null : km.getKeyManagers(),
            roots == null ? null : tm.getTrustManagers(),
            new SecureRandom());
        return context;
    }

    static void server(int port, String store) throws Exception {
        KeyStore keys = KeyStore.getInstance("PKCS12", "BC");
        keys.load(new FileInputStream(store), "p".toCharArray());
        SSLServerSocket listener = (SSLServerSocket) context(keys, null).getServerSocketFactory()
            .createServerSocket(port, 16, InetAddress.getLoopbackAddress());
        while (true) {
            try (SSLSocket socket = (SSLSocket) listener.accept()) {
                socket.setSoTimeout(20000);
                BCSSLParameters parameters = ((BCSSLSocket) socket).getParameters();
                parameters.setNamedGroups(GROUPS);
                ((BCSSLSocket) socket).setParameters(parameters);
                byte[] line = new byte[256];
                int n = socket.getInputStream().read(line);
                socket.getOutputStream().write(line, 0, Math.max(n, 0));
            } catch (Exception e) {
                System.err.println(e);
            }
        }
    }

    static void client(int port, String ca, String group) throws Exception {
        KeyStore roots = KeyStore.getInstance("PKCS12", "BC");
        roots.load(null, null);
        roots.setCertificateEntry("root", CertificateFactory.getInstance("X.509", "BC")
            .generateCertificate(new FileInputStream(ca)));
        try (SSLSocket socket = (SSLSocket) context(null, roots).getSocketFactory()
                .createSocket(InetAddress.getLoopbackAddress(), port)) {
            socket.setSoTimeout(20000);
            BCSSLParameters parameters = ((BCSSLSocket) socket).getParameters();
            // The curves are for the certificate, if that is ECDSA.
            parameters.setNamedGroups(new String[] {group, "secp256r1", "secp384r1"});
            ((BCSSLSocket) socket).setParameters(parameters);
            socket.getOutputStream().write("hello\n".getBytes());
            System.out.println(new BufferedReader(
                new InputStreamReader(socket.getInputStream())).readLine());
        }
    }
}
