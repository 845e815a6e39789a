//! Waiting for the threads of a server to end.

use std::io;
use std::thread::JoinHandle;

/// Waits until all of them have ended, also those after one that has panicked.
///
/// # Errors
/// One of them panicked.
pub(crate) fn all(threads: Vec<JoinHandle<()>>) -> io::Result<()> {
    match threads.into_iter().filter_map(|thread| thread.join().err()).count() {
        0 => Ok(()),
        _ => Err(io::Error::other("a reactor panicked; this is a defect of the server")),
    }
}
