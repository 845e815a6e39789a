//! Why a load could not be run at all; what goes wrong while it runs is counted in its outcome.

/// Why a load could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A value of the plan cannot be used.
    #[error("{0}")]
    Plan(String),
    /// The host of the URL has no address.
    #[error("cannot find the address of {host}: {cause}")]
    Resolve {
        /// The host.
        host: String,
        /// The resolver's reason.
        cause: std::io::Error,
    },
    /// The kernel refused something that the load needs.
    #[error("the load cannot run: {0}")]
    Io(#[from] std::io::Error),
    /// Nothing could be measured.
    #[error("nothing was measured: {0}")]
    Nothing(String),
}
