//! Pictures that move as PNG (APNG, PNG third edition) and WebP (RFC 9649) are kept as they move,
//! like GIFs; only what is no picture is taken out of them.

use super::gif;
use super::sniff::Form;

/// The ends of names of stored files that move, where that tells them from files that do not.
const MOVING: [(&str, Form); 3] = [("gif", Form::Gif), ("apng", Form::Png), ("awebp", Form::Webp)];

/// The end of the name under which an animation of this form is stored.
pub(crate) fn extension(form: Form) -> &'static str {
    MOVING.into_iter().find(|(_, of)| *of == form).map_or("bin", |(extension, _)| extension)
}

/// The form of a stored file that moves, by its name; none of what stands still.
pub(crate) fn form_of(name: &str) -> Option<Form> {
    let end = name.rsplit('.').next()?;
    MOVING.into_iter().find(|(extension, _)| *extension == end).map(|(_, form)| form)
}

/// Pictures one animation may have.
const FRAMES_MAX: usize = 1_000;

/// The animation in `file` without what was hidden in it; none when it stands still, breaks off
/// or has too many pictures.
pub(crate) fn clean(file: &[u8], form: Form) -> Option<Vec<u8>> {
    let (bytes, frames) = match form {
        Form::Gif => gif::clean(file).map(|gif| (gif.bytes, gif.frames))?,
        Form::Png => png(file)?,
        Form::Webp => webp(file)?,
        _ => return None,
    };
    (2..=FRAMES_MAX).contains(&frames).then_some(bytes)
}

/// Chunks of a length, a name, so many bytes and a checksum, after a signature.
fn png(file: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (signature, mut rest) = file.split_at_checked(8)?;
    let mut bytes = signature.to_vec();
    let mut frames = 0;
    loop {
        let length = u32::from_be_bytes(rest.first_chunk().copied()?);
        let whole = usize::try_from(length).ok()?.checked_add(12)?;
        let (chunk, left) = rest.split_at_checked(whole)?;
        rest = left;
        match chunk.get(4..8)? {
            b"IEND" => {
                bytes.extend_from_slice(chunk);
                return Some((bytes, frames));
            }
            name @ (b"IHDR" | b"PLTE" | b"tRNS" | b"IDAT" | b"acTL" | b"fcTL" | b"fdAT"
            | b"gAMA" | b"cHRM" | b"sRGB") => {
                frames += usize::from(name == b"fcTL");
                bytes.extend_from_slice(chunk);
            }
            _ => {}
        }
    }
}

/// `RIFF`, a length, `WEBP`; then chunks of a name, a length and so many bytes, made even.
fn webp(file: &[u8]) -> Option<(Vec<u8>, usize)> {
    const EXIF_AND_XMP: u8 = 0b0000_1100;
    let (head, mut rest) = file.split_at_checked(12)?;
    if !head.starts_with(b"RIFF") || !head.ends_with(b"WEBP") {
        return None;
    }
    let mut bytes = head.to_vec();
    let mut frames = 0;
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest.get(4..8)?.first_chunk().copied()?);
        let length = usize::try_from(length).ok()?;
        let whole = length.checked_add(length % 2)?.checked_add(8)?;
        let (chunk, left) = rest.split_at_checked(whole)?;
        rest = left;
        match chunk.get(..4)? {
            b"VP8X" => {
                let at = bytes.len() + 8;
                bytes.extend_from_slice(chunk);
                *bytes.get_mut(at)? &= !EXIF_AND_XMP;
            }
            name @ (b"ANIM" | b"ANMF" | b"ICCP" | b"ALPH" | b"VP8 " | b"VP8L") => {
                frames += usize::from(name == b"ANMF");
                bytes.extend_from_slice(chunk);
            }
            _ => {}
        }
    }
    let length = u32::try_from(bytes.len().checked_sub(8)?).ok()?;
    bytes.get_mut(4..8)?.copy_from_slice(&length.to_le_bytes());
    Some((bytes, frames))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
        let length = u32::try_from(data.len()).unwrap().to_be_bytes();
        [&length[..], name, data, b"crc."].concat()
    }

    fn riff(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
        let length = u32::try_from(data.len()).unwrap().to_le_bytes();
        let even: &[u8] = if data.len() % 2 == 1 { b"\0" } else { b"" };
        [name, &length[..], data, even].concat()
    }

    fn wrap(chunks: &[Vec<u8>]) -> Vec<u8> {
        let body = chunks.concat();
        let length = u32::try_from(body.len() + 4).unwrap().to_le_bytes();
        [b"RIFF", &length[..], b"WEBP", &body].concat()
    }

    #[test]
    fn moving_pngs_keep_their_pictures_and_lose_their_texts() {
        let signature = b"\x89PNG\r\n\x1A\n".to_vec();
        let (head, end) = (chunk(b"IHDR", &[0; 13]), chunk(b"IEND", b""));
        let moves = [chunk(b"acTL", &[0; 8]), chunk(b"fcTL", &[0; 26]), chunk(b"IDAT", b"x")];
        let more = [chunk(b"fcTL", &[0; 26]), chunk(b"fdAT", b"0000y")];
        let text = chunk(b"tEXt", b"Author\0SPYCAM1");
        let pictures = [moves.concat(), more.concat()].concat();
        let file = [&signature, &head, &text, &pictures, &chunk(b"eXIf", b"z"), &end, &text];
        let clean_file = [&*signature, &head, &pictures, &end].concat();
        let file = file.map(|part| part.as_slice()).concat();
        assert_eq!(clean(&file, Form::Png), Some(clean_file));
        let still = [&*signature, &head, &chunk(b"IDAT", b"x"), &end].concat();
        assert_eq!(clean(&still, Form::Png), None);
        for at in 0..file.len() - text.len() {
            assert_eq!(clean(&file[..at], Form::Png), None, "cut at {at}");
        }
    }

    #[test]
    fn moving_webps_keep_their_pictures_and_lose_what_was_hidden() {
        let (frame, anim) = (riff(b"ANMF", &[7; 17]), riff(b"ANIM", &[0; 6]));
        let mut flags = [0; 10];
        flags[0] = 0b0000_1110;
        let hidden = [riff(b"EXIF", b"SPYCAM1"), riff(b"XMP ", b"<x>")];
        let with = |flags: &[u8], hidden: &[Vec<u8>]| {
            let shown = [riff(b"VP8X", flags), anim.clone(), frame.clone(), frame.clone()];
            wrap(&[&shown[..], hidden].concat())
        };
        let file = with(&flags, &hidden);
        flags[0] = 0b0000_0010;
        assert_eq!(clean(&file, Form::Webp), Some(with(&flags, &[])));
        assert_eq!(clean(&wrap(&[riff(b"VP8L", b"x")]), Form::Webp), None);
        assert_eq!(clean(b"RIFF", Form::Webp), None);
        proptest::proptest!(|(tail in proptest::collection::vec(0u8.., 0..200))| {
            let _ = clean(&[&file[..30], &tail[..]].concat(), Form::Webp);
            let _ = clean(&[b"\x89PNG\r\n\x1A\n", &tail[..]].concat(), Form::Png);
        });
    }
}
