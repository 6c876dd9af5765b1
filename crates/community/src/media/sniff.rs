//! What a file is, by its first bytes: never by its name or by what somebody says of it.

use super::motion;

/// A form of media that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// JPEG.
    Jpeg,
    /// PNG.
    Png,
    /// WebP.
    Webp,
    /// GIF.
    Gif,
    /// MP4 or QuickTime with pictures.
    Mp4,
    /// WebM or Matroska.
    Webm,
    /// MP4 without pictures.
    M4a,
    /// MPEG audio.
    Mp3,
    /// Ogg.
    Ogg,
    /// FLAC.
    Flac,
    /// WAVE.
    Wav,
    /// AAC in ADTS.
    Aac,
}

/// How many bytes from the beginning [`sniff`] looks at.
pub const SNIFFED_BYTES: usize = 64;

/// The form of a file that begins with `head`; none when it is nothing we take.
pub fn sniff(head: &[u8]) -> Option<Form> {
    let at = |from: usize, sign: &[u8]| head.get(from..from + sign.len()) == Some(sign);
    let form = if at(0, b"\xFF\xD8\xFF") {
        Form::Jpeg
    } else if at(0, b"\x89PNG\r\n\x1A\n") {
        Form::Png
    } else if at(0, b"GIF87a") || at(0, b"GIF89a") {
        Form::Gif
    } else if at(0, b"RIFF") && at(8, b"WEBP") {
        Form::Webp
    } else if at(0, b"RIFF") && at(8, b"WAVE") {
        Form::Wav
    } else if at(0, b"\x1A\x45\xDF\xA3") {
        Form::Webm
    } else if at(0, b"OggS") {
        Form::Ogg
    } else if at(0, b"fLaC") {
        Form::Flac
    } else if at(4, b"ftyp") {
        return iso_media(head.get(8..12)?);
    } else if at(0, b"ID3") || mpeg_audio(head, 0xE0, |layer| layer != 0) {
        Form::Mp3
    } else if mpeg_audio(head, 0xF0, |layer| layer == 0) {
        Form::Aac
    } else {
        return None;
    };
    Some(form)
}

/// By the major brand (ISO 14496-12, 4.3). Still pictures in that container are not taken.
fn iso_media(brand: &[u8]) -> Option<Form> {
    match brand {
        b"M4A " | b"M4B " => Some(Form::M4a),
        b"qt  " | b"M4V " | b"avc1" | b"isom" | b"dash" | b"MSNV" => Some(Form::Mp4),
        _ if brand.starts_with(b"iso") || brand.starts_with(b"mp4") || brand.starts_with(b"3g") => {
            Some(Form::Mp4)
        }
        _ => None,
    }
}

/// A frame header of MPEG audio: the sync bits `sync`, and two bits of the layer that fit.
fn mpeg_audio(head: &[u8], sync: u8, fits: impl Fn(u8) -> bool) -> bool {
    match head {
        [0xFF, second, ..] => second & sync == sync && fits(second >> 1 & 3),
        _ => false,
    }
}

impl Form {
    /// `image`, `video` or `audio`.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Jpeg | Self::Png | Self::Webp | Self::Gif => "image",
            Self::Mp4 | Self::Webm => "video",
            Self::M4a | Self::Mp3 | Self::Ogg | Self::Flac | Self::Wav | Self::Aac => "audio",
        }
    }

    /// The end of its files' names.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Jpeg => "jpg",
            Self::Png => "png",
            Self::Webp => "webp",
            Self::Gif => "gif",
            Self::Mp4 => "mp4",
            Self::Webm => "webm",
            Self::M4a => "m4a",
            Self::Mp3 => "mp3",
            Self::Ogg => "ogg",
            Self::Flac => "flac",
            Self::Wav => "wav",
            Self::Aac => "aac",
        }
    }

    /// Its media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
            Self::Webp => "image/webp",
            Self::Gif => "image/gif",
            Self::Mp4 => "video/mp4",
            Self::Webm => "video/webm",
            Self::M4a => "audio/mp4",
            Self::Mp3 => "audio/mpeg",
            Self::Ogg => "audio/ogg",
            Self::Flac => "audio/flac",
            Self::Wav => "audio/wav",
            Self::Aac => "audio/aac",
        }
    }

    /// The name of the demultiplexer that alone may read it, so that no playlist or other form
    /// that leads elsewhere is ever opened.
    pub(crate) fn demuxer(self) -> &'static str {
        match self {
            Self::Mp4 | Self::M4a => "mov",
            Self::Webm => "matroska",
            Self::Mp3 => "mp3",
            Self::Ogg => "ogg",
            Self::Flac => "flac",
            Self::Wav => "wav",
            Self::Aac => "aac",
            Self::Gif => "gif",
            Self::Jpeg | Self::Png | Self::Webp => "image2",
        }
    }

    /// All forms there are.
    pub const ALL: [Self; 12] = [
        Self::Jpeg,
        Self::Png,
        Self::Webp,
        Self::Gif,
        Self::Mp4,
        Self::Webm,
        Self::M4a,
        Self::Mp3,
        Self::Ogg,
        Self::Flac,
        Self::Wav,
        Self::Aac,
    ];
}

/// The media type of a stored file by the end of its name, which we gave it.
pub fn content_type_of(name: &str) -> &'static str {
    let extension = name.rsplit('.').next().unwrap_or_default();
    let form = Form::ALL.into_iter().find(|form| form.extension() == extension);
    let form = form.or_else(|| motion::form_of(name));
    form.map_or("application/octet-stream", Form::content_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_known_by_their_first_bytes() {
        let known: [(&[u8], Option<Form>); 14] = [
            (b"\xFF\xD8\xFF\xE0", Some(Form::Jpeg)),
            (b"\x89PNG\r\n\x1A\n0000", Some(Form::Png)),
            (b"GIF89a", Some(Form::Gif)),
            (b"RIFF0000WEBPVP8 ", Some(Form::Webp)),
            (b"RIFF0000WAVEfmt ", Some(Form::Wav)),
            (b"\0\0\0\x20ftypisom", Some(Form::Mp4)),
            (b"\0\0\0\x20ftypM4A ", Some(Form::M4a)),
            (b"\0\0\0\x20ftypheic", None),
            (b"\xFF\xFB\x90\x00", Some(Form::Mp3)),
            (b"\xFF\xF1\x50\x80", Some(Form::Aac)),
            (b"<svg xmlns='http://www.w3.org/2000/svg'>", None),
            (b"<!DOCTYPE html>", None),
            (b"#EXTM3U\nfile:///etc/passwd", None),
            (b"", None),
        ];
        for (head, form) in known {
            assert_eq!(sniff(head), form, "{:?}", String::from_utf8_lossy(head));
        }
    }

    #[test]
    fn no_beginning_of_a_file_panics() {
        proptest::proptest!(|(head in proptest::collection::vec(0u8.., 0..70))| {
            let _ = sniff(&head);
        });
    }
}
