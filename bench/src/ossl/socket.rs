//! Connections over a socket that blocks: handshake, data, the end.

use std::ffi::{CStr, c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd};

use super::connection::{Connection, Endpoint};
use super::{Error, Step};

/// `SSL_ERROR_ZERO_RETURN`: the peer said that it will send no more.
const SSL_ERROR_ZERO_RETURN: c_int = 6;

impl<'e> Connection<'e> {
    /// A connection of `endpoint` over a connected, blocking `socket`, which stays the caller's
    /// and has to outlive it; a client will insist on `host` as the server's name.
    ///
    /// # Errors
    /// `Call` when OpenSSL refuses.
    pub(crate) fn over_socket(
        endpoint: &'e Endpoint,
        socket: BorrowedFd<'e>,
        host: &CStr,
    ) -> Result<Connection<'e>, Error> {
        let connection = Self::unconnected(endpoint, host)?;
        let ossl = endpoint.context.ossl();
        // SAFETY: a live connection; the descriptor is open as long as the borrow lasts, and
        // OpenSSL makes a BIO of it that does not close it.
        let set = unsafe { (ossl.tls.SSL_set_fd)(connection.raw.as_ptr(), socket.as_raw_fd()) };
        ossl.done("SSL_set_fd", set)?;
        Ok(connection)
    }

    /// Shakes hands to the end.
    ///
    /// # Errors
    /// `Call` with OpenSSL's reasons, or when the peer did not answer in the socket's time limit.
    pub(crate) fn complete(&mut self) -> Result<(), Error> {
        let status = self.advance();
        match self.judge(status)? {
            Step::Finished => Ok(()),
            Step::Waiting | Step::Paused => {
                Err(Error::Call("the peer did not answer in time".into()))
            }
        }
    }

    /// Sends all of `data`.
    ///
    /// # Errors
    /// `Call` when the connection broke.
    pub(crate) fn send(&mut self, data: &[u8]) -> Result<(), Error> {
        let ossl = self.endpoint.context.ossl();
        let mut written = 0;
        // SAFETY: a live connection; `data` is readable for its length. Without
        // SSL_MODE_ENABLE_PARTIAL_WRITE a call writes everything or fails.
        let status = unsafe {
            let text = data.as_ptr().cast::<c_void>();
            (ossl.tls.SSL_write_ex)(self.raw.as_ptr(), text, data.len(), &mut written)
        };
        ossl.done("sending data", status)
    }

    /// Receives into `room` and returns how many bytes came; 0 when the peer is done.
    ///
    /// # Errors
    /// `Call` when the connection broke, or the peer sent nothing in the socket's time limit.
    pub(crate) fn receive(&mut self, room: &mut [u8]) -> Result<usize, Error> {
        let ossl = self.endpoint.context.ossl();
        let mut read = 0;
        // SAFETY: a live connection; `room` is writable for its length.
        let (status, error) = unsafe {
            let raw = self.raw.as_ptr();
            let out = room.as_mut_ptr().cast::<c_void>();
            let status = (ossl.tls.SSL_read_ex)(raw, out, room.len(), &mut read);
            (status, (ossl.tls.SSL_get_error)(raw, status))
        };
        if status != 1 && error == SSL_ERROR_ZERO_RETURN {
            return Ok(0);
        }
        ossl.done("receiving data", status)?;
        Ok(read)
    }

    /// Sends the close_notify alert: this side will send no more.
    ///
    /// # Errors
    /// `Call` if the alert could not be sent.
    pub(crate) fn close(&mut self) -> Result<(), Error> {
        let ossl = self.endpoint.context.ossl();
        // SAFETY: a live connection whose handshake is over.
        let status = unsafe { (ossl.tls.SSL_shutdown)(self.raw.as_ptr()) };
        // 0 means that the peer's alert has not come yet, which is not a failure.
        ossl.done("closing the connection", if status < 0 { status } else { 1 })
    }
}
