"""Serves /host/repository by TLS at port 9443, to the programs that programs.sh tries. /alive answers `alive`."""

import http.server
import ssl
import sys

FOLDER = "/host/repository"


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # else the end of a body is that of the connection, without the alert of TLS

    def __init__(self, *args):
        super().__init__(*args, directory=FOLDER)

    def log_message(self, *_):
        pass


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/host/cert.pem", "/host/key.pem")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 9443), Handler)
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
open("/host/server-ready", "w").close()
sys.stdout.close()
server.serve_forever()
