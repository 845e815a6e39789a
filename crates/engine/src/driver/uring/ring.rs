//! The rings shared with the kernel: set up, filled with requests, entered, and emptied of completions.

use std::io;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::time::Duration;

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{CompletionQueue, IoUring, SubmissionQueue, Submitter, cqueue, squeue};
use rustix::io::Errno;

/// Requests handed over in one call at most; more need another call.
const SUBMISSIONS: u32 = 1024;

/// Completions the kernel can leave before it has to keep them aside.
const COMPLETIONS: u32 = 8192;

/// How long to wait before asking a kernel again that is short of memory.
const SHORT_OF_MEMORY: Duration = Duration::from_millis(1);

/// How often a kernel that is short of memory is asked to take the requests that fill the queue, before one is given up.
const TRIES: usize = 100;

/// An io_uring, for the thread that made it.
pub(super) struct Ring {
    submitter: ManuallyDrop<Submitter<'static>>,
    submission: ManuallyDrop<SubmissionQueue<'static>>,
    completion: ManuallyDrop<CompletionQueue<'static>>,
    /// What the three above borrow from.
    whole: NonNull<IoUring>,
}

/// Sets up a ring, or says that this kernel has none for us.
fn set_up() -> io::Result<IoUring> {
    IoUring::builder()
        .setup_cqsize(COMPLETIONS)
        .setup_clamp()
        // One thread submits; completions are worked on when it waits for them, and not in the middle of its work.
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_submit_all()
        .build(SUBMISSIONS)
}

impl Ring {
    pub(super) fn new() -> io::Result<Self> {
        let ring = set_up()?;
        if !(ring.params().is_feature_nodrop() && ring.params().is_feature_ext_arg()) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let whole = NonNull::from(Box::leak(Box::new(ring)));
        // SAFETY: the box lives until `drop`, which ends the three parts first; nobody else uses the pointer.
        let (mut submitter, submission, completion) = unsafe { &mut *whole.as_ptr() }.split();
        // Saves the look-up of the descriptor on every call; without it (before Linux 5.18) all works the same.
        let _ = submitter.register_ring_fd();
        Ok(Ring {
            submitter: ManuallyDrop::new(submitter),
            submission: ManuallyDrop::new(submission),
            completion: ManuallyDrop::new(completion),
            whole,
        })
    }

    pub(super) fn submitter(&self) -> &Submitter<'static> {
        &self.submitter
    }

    /// Queues a request for the next [`enter`](Self::enter); enters at once if the queue is full.
    ///
    /// # Safety
    /// What the request points to must stay valid and untouched until its completion was taken.
    pub(super) unsafe fn push(&mut self, request: &squeue::Entry) -> io::Result<()> {
        for _ in 0..TRIES {
            // SAFETY: the caller's promise.
            if unsafe { self.submission.push(request) }.is_ok() {
                return Ok(());
            }
            self.enter(Wait::No)?;
        }
        Err(io::Error::other("the submission queue stays full"))
    }

    /// Hands over what is queued; with `wait` sleeps until something is completed, or for that long.
    pub(super) fn enter(&mut self, wait: Wait) -> io::Result<()> {
        self.submission.sync();
        let result = match wait {
            Wait::No if self.is_quiet() => return Ok(()),
            Wait::No => self.submitter.submit(),
            Wait::Forever => self.submitter.submit_and_wait(1),
            Wait::AtMost(time) => {
                let time = Timespec::new().sec(time.as_secs()).nsec(time.subsec_nanos());
                self.submitter.submit_with_args(1, &SubmitArgs::new().timespec(&time))
            }
        };
        self.submission.sync();
        match result {
            Ok(_) => Ok(()),
            Err(error) => match Errno::from_io_error(&error) {
                // The time is up, a signal came, or completions must be taken first: all of which the caller sees to.
                Some(Errno::TIME | Errno::INTR | Errno::BUSY) => Ok(()),
                // The kernel is short of memory. What was queued stays queued, and is handed over the next time.
                Some(Errno::AGAIN | Errno::NOMEM) => {
                    std::thread::sleep(SHORT_OF_MEMORY);
                    Ok(())
                }
                _ => Err(error),
            },
        }
    }

    /// Whether a call into the kernel would change nothing.
    fn is_quiet(&self) -> bool {
        let submission = &self.submission;
        submission.is_empty() && !submission.taskrun() && !submission.cq_overflow()
    }

    /// The next completion.
    pub(super) fn next(&mut self) -> Option<cqueue::Entry> {
        if let Some(entry) = self.completion.next() {
            return Some(entry);
        }
        self.completion.sync();
        self.completion.next()
    }
}

/// How long to stay in the kernel.
pub(super) enum Wait {
    /// Not at all.
    No,
    /// This long at most.
    AtMost(Duration),
    /// As long as it takes.
    Forever,
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: each is dropped once, here, before what it borrows from.
        unsafe {
            ManuallyDrop::drop(&mut self.submitter);
            ManuallyDrop::drop(&mut self.submission);
            ManuallyDrop::drop(&mut self.completion);
        }
        // SAFETY: leaked in `new` from a box, and nothing refers to it any more.
        drop(unsafe { Box::from_raw(self.whole.as_ptr()) });
    }
}
