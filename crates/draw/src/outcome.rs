//! What fallible functions here return.

/// A result, or an error that tells a person what went wrong.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
