//! Where simulated kernels print to: the process's standard output, a captured string that a test
//! can check, or any writer.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, io};

/// Where `printf` and traces of simulated kernels go. Clones write to the same place.
///
/// If writing fails, the text is lost, as it is on a GPU.
#[derive(Clone)]
pub struct Output(Sink);

#[derive(Clone)]
enum Sink {
    Stdout,
    Captured(Arc<Mutex<String>>),
    Writer(Arc<Mutex<dyn Write + Send>>),
}

impl Output {
    /// Writes to the standard output of the process. This is the default for `printf`.
    pub fn stdout() -> Output {
        Output(Sink::Stdout)
    }

    /// Captures the text in memory, so that a test can check what a kernel prints. Read the text
    /// with [`take`](Output::take).
    pub fn captured() -> Output {
        Output(Sink::Captured(Arc::default()))
    }

    /// Writes to any writer, for example to a log file, or to a file for `tilewright trace`.
    pub fn to(writer: impl Write + Send + 'static) -> Output {
        Output(Sink::Writer(Arc::new(Mutex::new(writer))))
    }

    /// Returns what kernels have printed to a [`captured`](Output::captured) output since the last
    /// call. If the output was made with [`stdout`](Output::stdout) or [`to`](Output::to), returns
    /// an empty string.
    pub fn take(&self) -> String {
        match &self.0 {
            Sink::Captured(text) => {
                std::mem::take(&mut *text.lock().unwrap_or_else(PoisonError::into_inner))
            }
            Sink::Stdout | Sink::Writer(_) => String::new(),
        }
    }

    /// Writes a launch's texts in one go, so that those of other launches do not mix in.
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
