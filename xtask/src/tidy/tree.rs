//! The files of the workspace.

use std::fs;
use std::io;
use std::path::Path;

/// A file, by its path from the workspace on.
pub struct File {
    /// Its path, with slashes.
    pub path: String,
    /// Its text.
    pub text: String,
}

impl File {
    /// What stands after the last dot of its name.
    pub fn kind(&self) -> &str {
        self.path.rsplit_once('.').map_or("", |(_, kind)| kind)
    }
}

/// Directories that hold nothing written by hand.
const SKIPPED: &[&str] =
    &["target", "data", "node_modules", ".git", ".venv", "report", "__pycache__"];

/// Reads all files whose bytes are text.
pub fn read(root: &Path) -> io::Result<Vec<File>> {
    let mut files = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if kind.is_dir() {
                if !SKIPPED.contains(&entry.file_name().to_string_lossy().as_ref()) {
                    waiting.push(path);
                }
            } else if kind.is_file()
                && let Ok(text) = String::from_utf8(fs::read(&path)?)
            {
                let path = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
                files.push(File { path, text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}
