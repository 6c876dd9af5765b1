//! Videos, sounds and moving GIFs, by ffmpeg where it is installed.
//!
//! The programs read one local file in the form we found, by one demultiplexer and no other
//! protocol than files, within limits of time, pixels and length of what they write.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value as JsonValue, json};
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use super::picture::PIXELS_MAX;
use super::size_meta;
use super::sniff::Form;

/// How long looking into a file may take.
const PROBE_MAX: Duration = Duration::from_secs(20);
/// How long a still picture may take.
const STILL_MAX: Duration = Duration::from_secs(30);
/// How long making a file anew may take.
const CONVERT_MAX: Duration = Duration::from_secs(900);
/// What is read of a program's answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// The longest side of a video that is made anew, in pixels.
const SIDE_MAX: u32 = 1_920;
/// Threads of one conversion.
const THREADS: &str = "2";

/// The two programs.
#[derive(Debug, Clone)]
pub struct Tools {
    ffmpeg: PathBuf,
    ffprobe: PathBuf,
}

/// Why a film is not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilmError {
    /// The file is broken or in a form that ffmpeg here does not know.
    #[error("the file cannot be read as what it is ({0})")]
    Unreadable(String),
    /// It took too long.
    #[error("working on it took longer than {} s", .0.as_secs())]
    Timeout(Duration),
    /// The program could not be run.
    #[error("{program} could not be run: {source}")]
    Run { program: String, source: std::io::Error },
}

impl FilmError {
    /// Whether another try may help.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Self::Run { .. })
    }
}

/// What a file holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Film {
    /// The codec of the pictures.
    pub(crate) video: Option<String>,
    /// The codec of the sound.
    pub(crate) audio: Option<String>,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) duration_s: f64,
    pixel_format: String,
    frame_rate: String,
    bit_rate: u64,
}

/// In which form a film is made anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) kind: &'static str,
    pub(crate) form: Form,
    codecs: Codecs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Codecs {
    /// Only the container is written anew.
    Copy,
    /// H.264 and AAC.
    Convert,
    /// AAC alone.
    ConvertSound,
}

impl Tools {
    /// Looks for both on the path.
    pub(crate) fn find() -> Option<Self> {
        let find = |name: &str| {
            let paths = std::env::var_os("PATH")?;
            std::env::split_paths(&paths)
                .map(|folder| folder.join(name))
                .find(|path| path.is_file())
        };
        let tools = Self { ffmpeg: find("ffmpeg")?, ffprobe: find("ffprobe")? };
        tracing::debug!(ffmpeg = %tools.ffmpeg.display(), "films are worked on");
        Some(tools)
    }

    /// Looks into a file.
    pub(crate) async fn probe(&self, path: &Path, form: Form) -> Result<Film, FilmError> {
        let mut arguments = input(&["-v", "error"], path, form);
        arguments.extend(words(&[
            "-show_entries",
            "format=duration,bit_rate:stream=codec_type,codec_name,width,height,pix_fmt,\
             avg_frame_rate:stream_disposition=attached_pic:stream_side_data=rotation",
            "-of",
            "json",
        ]));
        let answer = run(&self.ffprobe, arguments, PROBE_MAX).await?;
        Film::parse(&answer).ok_or_else(|| FilmError::Unreadable("no streams".into()))
    }

    /// The first picture, as PNG at `to`.
    pub(crate) async fn still(&self, from: &Path, form: Form, to: &Path) -> Result<(), FilmError> {
        let pixels_max = PIXELS_MAX.to_string();
        let options = ["-nostdin", "-y", "-v", "error", "-max_pixels", &pixels_max];
        let mut arguments = input(&options, from, form);
        arguments.extend(words(&["-map", "0:v:0", "-frames:v", "1", "-map_metadata", "-1"]));
        arguments.extend(words(&["-vf", "scale='min(1280,iw)':-2", "-f", "image2", "-c:v", "png"]));
        arguments.push(to.into());
        run(&self.ffmpeg, arguments, STILL_MAX).await.map(|_| ())
    }

    /// Makes `from` anew at `to`, without what was hidden in it.
    pub(crate) async fn convert(
        &self,
        from: &Path,
        form: Form,
        plan: &Plan,
        to: &Path,
        bytes_max: u64,
    ) -> Result<(), FilmError> {
        let pixels_max = PIXELS_MAX.to_string();
        let options = ["-nostdin", "-y", "-v", "error", "-max_pixels", &pixels_max];
        let mut arguments = input(&options, from, form);
        arguments.extend(words(&["-map_metadata", "-1", "-map_chapters", "-1", "-dn", "-sn"]));
        arguments.extend(words(&["-map_metadata:s:v", "-1", "-map_metadata:s:a", "-1"]));
        arguments.extend(words(&["-fflags", "+bitexact", "-flags", "+bitexact"]));
        arguments.extend(plan.arguments().into_iter().map(OsString::from));
        arguments.extend(words(&["-fs", &bytes_max.to_string()]));
        arguments.push(to.into());
        run(&self.ffmpeg, arguments, CONVERT_MAX).await.map(|_| ())
    }
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// The options before and with the file that is read.
fn input(options: &[&str], path: &Path, form: Form) -> Vec<OsString> {
    let mut arguments = words(options);
    arguments.extend(words(&["-protocol_whitelist", "file", "-f", form.demuxer(), "-i"]));
    // With the protocol in front no name can be taken for an option or another protocol.
    let mut file = OsString::from("file:");
    file.push(path);
    arguments.push(file);
    arguments
}

async fn run(
    program: &Path,
    arguments: Vec<OsString>,
    time_max: Duration,
) -> Result<Vec<u8>, FilmError> {
    let failed = |source| FilmError::Run { program: program.display().to_string(), source };
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let (mut answer, mut complaint) = (Vec::new(), Vec::new());
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let ended = async {
        // What is beyond the limit stays in the pipe, and the program is ended by its time.
        tokio::join!(read(out, &mut answer), read(err, &mut complaint));
        child.wait().await
    };
    let status = match tokio::time::timeout(time_max, ended).await {
        Ok(status) => status.map_err(failed)?,
        Err(_) => return Err(FilmError::Timeout(time_max)),
    };
    if status.success() {
        return Ok(answer);
    }
    let complaint = String::from_utf8_lossy(&complaint);
    let line = complaint.lines().next_back().unwrap_or("no reason given");
    Err(FilmError::Unreadable(line.chars().take(200).collect()))
}

async fn read(pipe: Option<impl tokio::io::AsyncRead + Unpin>, into: &mut Vec<u8>) {
    if let Some(pipe) = pipe {
        // A broken pipe ends the reading as its end does; the exit status tells the rest.
        let _ = pipe.take(ANSWER_BYTES_MAX).read_to_end(into).await;
    }
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    streams: Vec<Stream>,
    #[serde(default)]
    format: Container,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Container {
    duration: String,
    bit_rate: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Stream {
    codec_type: String,
    codec_name: String,
    width: u32,
    height: u32,
    pix_fmt: String,
    avg_frame_rate: String,
    disposition: Disposition,
    side_data_list: Vec<SideData>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Disposition {
    attached_pic: i64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct SideData {
    rotation: f64,
}

impl Film {
    fn parse(answer: &[u8]) -> Option<Self> {
        let answer: Answer = serde_json::from_slice(answer).ok()?;
        let mut film = Self {
            duration_s: answer.format.duration.parse().unwrap_or(0.0),
            bit_rate: answer.format.bit_rate.parse().unwrap_or(0),
            ..Self::default()
        };
        for stream in answer.streams {
            let is_cover = stream.disposition.attached_pic != 0;
            match stream.codec_type.as_str() {
                "video" if film.video.is_none() && !is_cover => {
                    let turned =
                        stream.side_data_list.iter().any(|side| side.rotation % 180.0 != 0.0);
                    (film.width, film.height) = (stream.width, stream.height);
                    if turned {
                        (film.width, film.height) = (stream.height, stream.width);
                    }
                    film.video = Some(stream.codec_name);
                    film.pixel_format = stream.pix_fmt;
                    film.frame_rate = stream.avg_frame_rate;
                }
                "audio" if film.audio.is_none() => film.audio = Some(stream.codec_name),
                _ => {}
            }
        }
        (film.video.is_some() || film.audio.is_some()).then_some(film)
    }

    /// How this film, which came in `form`, is made anew; none when it holds nothing to show.
    pub(crate) fn plan(&self, form: Form) -> Option<Plan> {
        if form == Form::Gif {
            return Some(Plan { kind: "gifv", form: Form::Mp4, codecs: Codecs::Convert });
        }
        let video = self.video.as_deref();
        let audio = self.audio.as_deref();
        let plan = match (form.kind(), video, audio) {
            ("video", Some(video), audio) => {
                let codecs = if plays(form, video, &self.pixel_format, audio) {
                    Codecs::Copy
                } else {
                    Codecs::Convert
                };
                let form = if codecs == Codecs::Copy { form } else { Form::Mp4 };
                Plan { kind: "video", form, codecs }
            }
            (_, _, Some(audio)) => match (form, audio) {
                (Form::Mp3, "mp3")
                | (Form::Ogg, "vorbis" | "opus")
                | (Form::Flac, "flac")
                | (Form::Wav, "pcm_s16le" | "pcm_u8")
                | (Form::M4a, "aac") => Plan { kind: "audio", form, codecs: Codecs::Copy },
                (Form::Aac | Form::Mp4, "aac") => {
                    Plan { kind: "audio", form: Form::M4a, codecs: Codecs::Copy }
                }
                _ => Plan { kind: "audio", form: Form::M4a, codecs: Codecs::ConvertSound },
            },
            _ => return None,
        };
        Some(plan)
    }

    /// Duration and the like, as the Mastodon API's `meta` has them.
    pub(crate) fn meta(&self, meta: &mut JsonValue) {
        let mut original =
            if self.video.is_some() { size_meta(self.width, self.height) } else { json!({}) };
        if self.video.is_some() {
            original["frame_rate"] = json!(self.frame_rate);
            meta["fps"] = json!(frames_per_second(&self.frame_rate));
        }
        if let Some(audio) = &self.audio {
            meta["audio_encode"] = json!(audio);
        }
        original["duration"] = json!(self.duration_s);
        original["bitrate"] = json!(self.bit_rate);
        meta["original"] = original;
        meta["duration"] = json!(self.duration_s);
        meta["length"] = json!(length(self.duration_s));
    }
}

/// Whether browsers play it as it is.
fn plays(form: Form, video: &str, pixel_format: &str, audio: Option<&str>) -> bool {
    match form {
        Form::Mp4 => {
            video == "h264"
                && matches!(pixel_format, "yuv420p" | "yuvj420p")
                && matches!(audio, None | Some("aac" | "mp3"))
        }
        Form::Webm => {
            matches!(video, "vp8" | "vp9" | "av1")
                && matches!(audio, None | Some("opus" | "vorbis"))
        }
        _ => false,
    }
}

/// `30000/1001` as a number.
fn frames_per_second(rate: &str) -> f64 {
    let (count, per) = rate.split_once('/').unwrap_or((rate, "1"));
    let (count, per): (f64, f64) = (count.parse().unwrap_or(0.0), per.parse().unwrap_or(1.0));
    if per > 0.0 { (count / per * 100.0).round() / 100.0 } else { 0.0 }
}

/// `0:01:28.65`.
fn length(duration_s: f64) -> String {
    let hundredths = (duration_s.max(0.0) * 100.0).round() as u64;
    let (seconds, rest) = (hundredths / 100, hundredths % 100);
    format!("{}:{:02}:{:02}.{rest:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

impl Plan {
    fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<&str> = Vec::new();
        let scale = format!(
            "scale='min({SIDE_MAX},iw)':'min({SIDE_MAX},ih)':\
             force_original_aspect_ratio=decrease:force_divisible_by=2"
        );
        if self.kind != "audio" {
            arguments.extend(["-map", "0:v:0"]);
        }
        if self.kind != "gifv" {
            arguments.extend(["-map", if self.kind == "audio" { "0:a:0" } else { "0:a:0?" }]);
        }
        match self.codecs {
            Codecs::Copy => arguments.extend(["-c", "copy"]),
            Codecs::ConvertSound => arguments.extend(["-c:a", "aac", "-b:a", "160k"]),
            Codecs::Convert => arguments.extend([
                "-c:v", "libx264", "-preset", "veryfast", "-crf", "23", "-pix_fmt", "yuv420p",
                "-threads", THREADS, "-vf", &scale, "-c:a", "aac", "-b:a", "128k",
            ]),
        }
        match self.form {
            Form::Mp4 | Form::M4a => {
                let muxer = if self.form == Form::M4a { "ipod" } else { "mp4" };
                arguments.extend(["-movflags", "+faststart", "-f", muxer]);
            }
            Form::Mp3 => arguments.extend(["-id3v2_version", "0", "-f", "mp3"]),
            Form::Webm => arguments.extend(["-f", "webm"]),
            Form::Ogg => arguments.extend(["-f", "ogg"]),
            Form::Flac => arguments.extend(["-f", "flac"]),
            _ => arguments.extend(["-f", "wav"]),
        }
        arguments.into_iter().map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn film(video: Option<&str>, pixel_format: &str, audio: Option<&str>) -> Film {
        Film {
            video: video.map(Into::into),
            audio: audio.map(Into::into),
            pixel_format: pixel_format.into(),
            ..Film::default()
        }
    }

    #[test]
    fn what_browsers_play_is_only_wrapped_anew_and_the_rest_is_converted() {
        let plan =
            |film: Film, form| film.plan(form).map(|plan| (plan.kind, plan.form, plan.codecs));
        let h264 = film(Some("h264"), "yuv420p", Some("aac"));
        assert_eq!(plan(h264, Form::Mp4), Some(("video", Form::Mp4, Codecs::Copy)));
        let ten_bits = film(Some("hevc"), "yuv420p10le", Some("aac"));
        assert_eq!(plan(ten_bits, Form::Mp4), Some(("video", Form::Mp4, Codecs::Convert)));
        let webm = film(Some("vp9"), "yuv420p", Some("opus"));
        assert_eq!(plan(webm, Form::Webm), Some(("video", Form::Webm, Codecs::Copy)));
        let sound = film(None, "", Some("aac"));
        assert_eq!(plan(sound, Form::Mp4), Some(("audio", Form::M4a, Codecs::Copy)));
        let cover_only = film(Some("png"), "rgb24", None);
        assert_eq!(plan(cover_only, Form::Mp3), None);
    }

    #[test]
    fn what_ffprobe_says_is_read_and_covers_are_no_films() {
        let answer = br#"{"streams":[
            {"codec_type":"video","codec_name":"mjpeg","disposition":{"attached_pic":1}},
            {"codec_type":"video","codec_name":"h264","width":640,"height":360,
             "pix_fmt":"yuv420p","avg_frame_rate":"30000/1001",
             "side_data_list":[{"rotation":-90}]},
            {"codec_type":"audio","codec_name":"aac"}],
            "format":{"duration":"88.654","bit_rate":"1000"}}"#;
        let film = Film::parse(answer).unwrap();
        assert_eq!((film.width, film.height), (360, 640));
        let mut meta = json!({});
        film.meta(&mut meta);
        assert_eq!(meta["length"], "0:01:28.65");
        assert_eq!(meta["fps"], 29.97);
        assert_eq!(Film::parse(b"{}"), None);
        assert_eq!(Film::parse(b"no json"), None);
    }
}
