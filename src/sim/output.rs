//! Destinations of `printf` in simulated kernels.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, io};

/// Destination of `printf` in a simulated kernel. Clones write to the same destination.
///
/// What cannot be written is lost, as it is on a GPU.
#[derive(Clone)]
pub struct Output(Sink);

#[derive(Clone)]
enum Sink {
    Stdout,
    Captured(Arc<Mutex<String>>),
    Writer(Arc<Mutex<dyn Write + Send>>),
}

impl Output {
    /// The standard output of the process.
    pub fn stdout() -> Output {
        Output(Sink::Stdout)
    }

    /// Memory, from which [`take`](Output::take) gets the text.
    pub fn captured() -> Output {
        Output(Sink::Captured(Arc::default()))
    }

    /// Any writer, such as a file.
    pub fn to(writer: impl Write + Send + 'static) -> Output {
        Output(Sink::Writer(Arc::new(Mutex::new(writer))))
    }

    /// The text that was captured since the last call; nothing where the output is elsewhere.
    pub fn take(&self) -> String {
        match &self.0 {
            Sink::Captured(text) => {
                std::mem::take(&mut *text.lock().unwrap_or_else(PoisonError::into_inner))
            }
            Sink::Stdout | Sink::Writer(_) => String::new(),
        }
    }

    /// Prints the texts, with nothing of other launches between them.
    pub(in crate::sim) fn write<'t>(&self, mut texts: impl Iterator<Item = &'t str>) {
        // Nothing is locked or flushed for a kernel that does not print.
        let Some(first) = texts.next() else { return };
        let texts = [first].into_iter().chain(texts);
        let _lost = match &self.0 {
            Sink::Stdout => write_all(&mut io::stdout().lock(), texts),
            Sink::Captured(captured) => {
                captured.lock().unwrap_or_else(PoisonError::into_inner).extend(texts);
                Ok(())
            }
            Sink::Writer(writer) => {
                write_all(&mut *writer.lock().unwrap_or_else(PoisonError::into_inner), texts)
            }
        };
    }
}

fn write_all<'t>(to: &mut dyn Write, mut texts: impl Iterator<Item = &'t str>) -> io::Result<()> {
    texts.try_for_each(|text| to.write_all(text.as_bytes()))?;
    to.flush()
}

impl PartialEq for Output {
    fn eq(&self, other: &Output) -> bool {
        match (&self.0, &other.0) {
            (Sink::Stdout, Sink::Stdout) => true,
            (Sink::Captured(a), Sink::Captured(b)) => Arc::ptr_eq(a, b),
            (Sink::Writer(a), Sink::Writer(b)) => Arc::ptr_eq(a, b),
            (Sink::Stdout | Sink::Captured(_) | Sink::Writer(_), _) => false,
        }
    }
}

impl Eq for Output {}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Sink::Stdout => "Output(standard output)",
            Sink::Captured(_) => "Output(captured)",
            Sink::Writer(_) => "Output(writer)",
        })
    }
}
