// One side of a TLS 1.3 connection for tests/interop/tls.sh, over BouncyCastle's JSSE.
//
//   Peer server PORT STORE GROUPS [CA]     answers connections one after another; STORE is PKCS#12, password
//                                          "p"; asks for a certificate that CA has signed
//   Peer client PORT CA GROUPS [STORE]     sends a line and prints the first line of the answer
//
// GROUPS is a list with colons. The curves are there beside it, for certificates of ECDSA.

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
    public static void main(String[] args) throws Exception {
        Security.insertProviderAt(new BouncyCastleProvider(), 1);
        Security.insertProviderAt(new BouncyCastleJsseProvider(), 2);
        int port = Integer.parseInt(args[1]);
        String more = args.length > 4 ? args[4] : null;
        if (args[0].equals("server")) {
            server(port, context(args[2], more), args[3], more != null);
        } else {
            client(port, context(more, args[2]), args[3]);
        }
    }

    // With the keys of a PKCS#12 file, and one root; either may be null.
    static SSLContext context(String store, String root) throws Exception {
        KeyManagerFactory km = KeyManagerFactory.getInstance("PKIX", "BCJSSE");
        TrustManagerFactory tm = TrustManagerFactory.getInstance("PKIX", "BCJSSE");
        if (store != null) {
            KeyStore keys = KeyStore.getInstance("PKCS12", "BC");
            keys.load(new FileInputStream(store), "p".toCharArray());
            km.init(keys, "p".toCharArray());
        }
        if (root != null) {
            KeyStore roots = KeyStore.getInstance("PKCS12", "BC");
            roots.load(null, null);
            roots.setCertificateEntry("root", CertificateFactory.getInstance("X.509", "BC")
                .generateCertificate(new FileInputStream(root)));
            tm.init(roots);
        }
        SSLContext context = SSLContext.getInstance("TLSv1.3", "BCJSSE");
        context.init(
            store == null ? null : km.getKeyManagers(),
            root == null ? null : tm.getTrustManagers(),
            new SecureRandom());
        return context;
    }

    static void limit(SSLSocket socket, String groups) throws Exception {
        socket.setSoTimeout(20000);
        BCSSLParameters parameters = ((BCSSLSocket) socket).getParameters();
        parameters.setNamedGroups((groups + ":secp256r1:secp384r1").split(":"));
        // A client's share would be of the first curve, and every other group take a retry.
        parameters.setEarlyKeyShares(new String[] {groups.split(":")[0]});
        ((BCSSLSocket) socket).setParameters(parameters);
    }

    static void server(int port, SSLContext context, String groups, boolean mutual) throws Exception {
        SSLServerSocket listener = (SSLServerSocket) context.getServerSocketFactory()
            .createServerSocket(port, 16, InetAddress.getLoopbackAddress());
        listener.setNeedClientAuth(mutual);
        while (true) {
            try (SSLSocket socket = (SSLSocket) listener.accept()) {
                limit(socket, groups);
                byte[] line = new byte[256];
                int n = socket.getInputStream().read(line);
                socket.getOutputStream().write(line, 0, Math.max(n, 0));
            } catch (Exception e) {
                System.err.println(e);
            }
        }
    }

    static void client(int port, SSLContext context, String groups) throws Exception {
        try (SSLSocket socket = (SSLSocket) context.getSocketFactory()
                .createSocket(InetAddress.getLoopbackAddress(), port)) {
            limit(socket, groups);
            socket.getOutputStream().write("hello\n".getBytes());
            System.out.println(new BufferedReader(
                new InputStreamReader(socket.getInputStream())).readLine());
        }
    }
}
