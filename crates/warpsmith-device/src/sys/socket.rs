//! Sending messages, and bytes together with open files, over a Unix socket.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The most descriptors that Linux takes in one message (`SCM_MAX_FD`).
const DESCRIPTORS_PER_MESSAGE: usize = 253;

/// Room for the control data of one full message.
// SAFETY: `CMSG_SPACE` is arithmetic.
const CONTROL_BYTES: usize =
    unsafe { libc::CMSG_SPACE((DESCRIPTORS_PER_MESSAGE * size_of::<RawFd>()) as u32) } as usize;

/// Control data, aligned as its header wants it.
#[repr(C, align(16))]
struct ControlData([u8; CONTROL_BYTES]);

/// Sends descriptors, as many messages of one byte as it takes.
pub(crate) fn send_descriptors(
    socket: &UnixStream,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    for group in descriptors.chunks(DESCRIPTORS_PER_MESSAGE) {
        let raw: Vec<RawFd> = group.iter().map(AsRawFd::as_raw_fd).collect();
        let raw_bytes = size_of_val(raw.as_slice());
        let mut byte = [0u8; 1];
        let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
        let mut control = ControlData([0; CONTROL_BYTES]);
        // SAFETY: all zeros is a valid `msghdr`.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut control).cast();
        // SAFETY: the control data has room for a full message and is aligned for its header, so
        // the first header exists and its data has room for `raw`.
        let sent = unsafe {
            message.msg_controllen = libc::CMSG_SPACE(raw_bytes as u32) as _;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(raw_bytes as u32) as _;
            std::ptr::copy_nonoverlapping(
                raw.as_ptr().cast::<u8>(),
                libc::CMSG_DATA(header),
                raw_bytes,
            );
            libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
        };
        if sent != 1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Receives as many descriptors as were sent; they are closed on `exec`.
pub(crate) fn receive_descriptors(socket: &UnixStream, count: usize) -> io::Result<Vec<OwnedFd>> {
    let mut received = Vec::with_capacity(count);
    while received.len() < count {
        let mut byte = [0u8; 1];
        let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
        let mut control = ControlData([0; CONTROL_BYTES]);
        // SAFETY: all zeros is a valid `msghdr`.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = CONTROL_BYTES as _;
        // SAFETY: every pointer in `message` is valid for its stated length.
        let got =
            unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
        if got == -1 {
            return Err(io::Error::last_os_error());
        }
        let before = received.len();
        // SAFETY: the kernel filled the control data; the macros stay inside of it, and each
        // descriptor in it is open and now ours alone.
        unsafe {
            let mut header = libc::CMSG_FIRSTHDR(&raw const message);
            while !header.is_null() {
                if (*header).cmsg_type == libc::SCM_RIGHTS {
                    let bytes = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                    let data = libc::CMSG_DATA(header).cast::<RawFd>();
                    for idx in 0..bytes / size_of::<RawFd>() {
                        received.push(OwnedFd::from_raw_fd(data.add(idx).read_unaligned()));
                    }
                }
                header = libc::CMSG_NXTHDR(&raw const message, header);
            }
        }
        if received.len() == before {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("received {before} of {count} descriptors"),
            ));
        }
    }
    Ok(received)
}

/// Sends a message, its length first.
pub(crate) fn send_message(socket: &mut UnixStream, message: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text);
    socket.write_all(&bytes)
}

/// Receives a message.
pub(crate) fn receive_message<T: DeserializeOwned>(socket: &mut UnixStream) -> io::Result<T> {
    let mut length = [0; 8];
    socket.read_exact(&mut length)?;
    let mut text = vec![0; u64::from_le_bytes(length) as usize];
    socket.read_exact(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}
