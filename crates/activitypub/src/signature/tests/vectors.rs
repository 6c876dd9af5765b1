//! Published vectors: RFC 9421 (appendix B and section 4.3) and draft-cavage-http-signatures-12
//! (appendix C).

use aws_lc_rs::signature::{RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::signature::key::{PrivateKey, PublicKey};
use crate::signature::{Algorithm, Received, SignatureError, cavage, check, digest, rfc9421};

/// `test-key-rsa` (RFC 9421, B.1.1).
pub const RFC_RSA_PUBLIC: &str = "-----BEGIN RSA PUBLIC KEY-----
MIIBCgKCAQEAhAKYdtoeoy8zcAcR874L8cnZxKzAGwd7v36APp7Pv6Q2jdsPBRrw
WEBnez6d0UDKDwGbc6nxfEXAy5mbhgajzrw3MOEt8uA5txSKobBpKDeBLOsdJKFq
MGmXCQvEG7YemcxDTRPxAleIAgYYRjTSd/QBwVW9OwNFhekro3RtlinV0a75jfZg
kne/YiktSvLG34lw2zqXBDTC5NHROUqGTlML4PlNZS5Ri2U4aCNx2rUPRcKIlE0P
uKxI4T+HIaFpv8+rdV6eUgOrB2xeI1dSFFn/nnv5OoZJEIB+VmuKn3DCUcCZSFlQ
PSXSfBDiUGhwOw76WuSSsf1D4b/vLoJ10wIDAQAB
-----END RSA PUBLIC KEY-----";

/// `test-key-rsa` (RFC 9421, B.1.1).
const RFC_RSA_PRIVATE: &str = "-----BEGIN RSA PRIVATE KEY-----
MIIEqAIBAAKCAQEAhAKYdtoeoy8zcAcR874L8cnZxKzAGwd7v36APp7Pv6Q2jdsP
BRrwWEBnez6d0UDKDwGbc6nxfEXAy5mbhgajzrw3MOEt8uA5txSKobBpKDeBLOsd
JKFqMGmXCQvEG7YemcxDTRPxAleIAgYYRjTSd/QBwVW9OwNFhekro3RtlinV0a75
jfZgkne/YiktSvLG34lw2zqXBDTC5NHROUqGTlML4PlNZS5Ri2U4aCNx2rUPRcKI
lE0PuKxI4T+HIaFpv8+rdV6eUgOrB2xeI1dSFFn/nnv5OoZJEIB+VmuKn3DCUcCZ
SFlQPSXSfBDiUGhwOw76WuSSsf1D4b/vLoJ10wIDAQABAoIBAG/JZuSWdoVHbi56
vjgCgkjg3lkO1KrO3nrdm6nrgA9P9qaPjxuKoWaKO1cBQlE1pSWp/cKncYgD5WxE
CpAnRUXG2pG4zdkzCYzAh1i+c34L6oZoHsirK6oNcEnHveydfzJL5934egm6p8DW
+m1RQ70yUt4uRc0YSor+q1LGJvGQHReF0WmJBZHrhz5e63Pq7lE0gIwuBqL8SMaA
yRXtK+JGxZpImTq+NHvEWWCu09SCq0r838ceQI55SvzmTkwqtC+8AT2zFviMZkKR
Qo6SPsrqItxZWRty2izawTF0Bf5S2VAx7O+6t3wBsQ1sLptoSgX3QblELY5asI0J
YFz7LJECgYkAsqeUJmqXE3LP8tYoIjMIAKiTm9o6psPlc8CrLI9CH0UbuaA2JCOM
cCNq8SyYbTqgnWlB9ZfcAm/cFpA8tYci9m5vYK8HNxQr+8FS3Qo8N9RJ8d0U5Csw
DzMYfRghAfUGwmlWj5hp1pQzAuhwbOXFtxKHVsMPhz1IBtF9Y8jvgqgYHLbmyiu1
mwJ5AL0pYF0G7x81prlARURwHo0Yf52kEw1dxpx+JXER7hQRWQki5/NsUEtv+8RT
qn2m6qte5DXLyn83b1qRscSdnCCwKtKWUug5q2ZbwVOCJCtmRwmnP131lWRYfj67
B/xJ1ZA6X3GEf4sNReNAtaucPEelgR2nsN0gKQKBiGoqHWbK1qYvBxX2X3kbPDkv
9C+celgZd2PW7aGYLCHq7nPbmfDV0yHcWjOhXZ8jRMjmANVR/eLQ2EfsRLdW69bn
f3ZD7JS1fwGnO3exGmHO3HZG+6AvberKYVYNHahNFEw5TsAcQWDLRpkGybBcxqZo
81YCqlqidwfeO5YtlO7etx1xLyqa2NsCeG9A86UjG+aeNnXEIDk1PDK+EuiThIUa
/2IxKzJKWl1BKr2d4xAfR0ZnEYuRrbeDQYgTImOlfW6/GuYIxKYgEKCFHFqJATAG
IxHrq1PDOiSwXd2GmVVYyEmhZnbcp8CxaEMQoevxAta0ssMK3w6UsDtvUvYvF22m
qQKBiD5GwESzsFPy3Ga0MvZpn3D6EJQLgsnrtUPZx+z2Ep2x0xc5orneB5fGyF1P
WtP+fG5Q6Dpdz3LRfm+KwBCWFKQjg7uTxcjerhBWEYPmEMKYwTJF5PBG9/ddvHLQ
EQeNC8fHGg4UXU8mhHnSBt3EA10qQJfRDs15M38eG2cYwB1PZpDHScDnDA0=
-----END RSA PRIVATE KEY-----";

/// `test-key-rsa-pss` (RFC 9421, B.1.2).
const RFC_RSA_PSS_PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAr4tmm3r20Wd/PbqvP1s2
+QEtvpuRaV8Yq40gjUR8y2Rjxa6dpG2GXHbPfvMs8ct+Lh1GH45x28Rw3Ry53mm+
oAXjyQ86OnDkZ5N8lYbggD4O3w6M6pAvLkhk95AndTrifbIFPNU8PPMO7OyrFAHq
gDsznjPFmTOtCEcN2Z1FpWgchwuYLPL+Wokqltd11nqqzi+bJ9cvSKADYdUAAN5W
Utzdpiy6LbTgSxP7ociU4Tn0g5I6aDZJ7A8Lzo0KSyZYoA485mqcO0GVAdVw9lq4
aOT9v6d+nb4bnNkQVklLQ3fVAvJm+xdDOp9LCNCN48V2pnDOkFV6+U9nV5oyc6XI
2wIDAQAB
-----END PUBLIC KEY-----";

/// `test-key-ed25519` (RFC 9421, B.1.4).
pub const RFC_ED25519_PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAJrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs=
-----END PUBLIC KEY-----";

/// `test-key-ed25519` (RFC 9421, B.1.4).
pub const RFC_ED25519_PRIVATE: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF
-----END PRIVATE KEY-----";

const CONTENT_DIGEST: &str = "sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIi\
    Yllu7BNNyealdVLvRwEmTHWXvJwew==:";

struct Request {
    target: &'static str,
    authority: &'static str,
    headers: HeaderMap,
}

impl Request {
    fn received(&self) -> Received<'_> {
        Received {
            method: &Method::POST,
            scheme: "https",
            authority: self.authority,
            path_and_query: self.target,
            headers: &self.headers,
        }
    }
}

fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&'static str, &str)| {
        (HeaderName::from_static(name), HeaderValue::try_from(*value).unwrap())
    };
    list.iter().map(pair).collect()
}

/// The request of RFC 9421's appendix B.2, with a signature.
fn rfc_request(input: &str, signature: &str) -> Request {
    let headers = headers(&[
        ("host", "example.com"),
        ("date", "Tue, 20 Apr 2021 02:07:55 GMT"),
        ("content-type", "application/json"),
        ("content-digest", CONTENT_DIGEST),
        ("content-length", "18"),
        ("signature-input", &format!("sig={input}")),
        ("signature", &format!("sig=:{signature}:")),
    ]);
    Request { target: "/foo?param=Value&Pet=dog", authority: "example.com", headers }
}

#[test]
fn rfc_9421_b_2_1_nothing_covered() {
    let input = "();created=1618884473;keyid=\"test-key-rsa-pss\";nonce=\"b3k2pp5k7z-50gnwp.yemd\"";
    let request = rfc_request(
        input,
        "d2pmTvmbncD3xQm8E9ZV2828BjQWGgiwAaw5bAkgibUopemLJcWDy/lkbbHAve4cRAtx31Iq786U7it++wgGxbt\
         Rxf8Udx7zFZsckzXaJMkA7ChG52eSkFxykJeNqsrWH5S+oxNFlD4dzVuwe8DhTSja8xxbR/Z2cOGdCbzR72rgFWh\
         zx2VjBqJzsPLMIQKhO4DGezXehhWwE56YCE+O6c0mKZsfxVrogUvA4HELjVKWmAvtl6UnCh8jYzuVG5WSb/QEVPn\
         P5TmcAnLH1g+s++v6d4s8m0gCw1fV5/SITLq9mhho8K3+7EPYTU8IU1bLhdxO5Nyt8C8ssinQ98Xw9Q==",
    );
    let (base, signature) = rfc9421::testing::raw(&request.received(), "sig");
    assert_eq!(base, format!("\"@signature-params\": {input}").into_bytes());
    let key = PublicKey::from_pem(RFC_RSA_PSS_PUBLIC).unwrap();
    assert!(key.verifies(Algorithm::RsaPssSha512, &base, &signature));
    assert!(key.verifies(Algorithm::OfKey, &base, &signature));
    assert!(!key.verifies(Algorithm::RsaSha256, &base, &signature));
}

#[test]
fn rfc_9421_b_2_3_the_whole_request_covered() {
    let input = "(\"date\" \"@method\" \"@path\" \"@query\" \"@authority\" \"content-type\" \
         \"content-digest\" \"content-length\");created=1618884473;keyid=\"test-key-rsa-pss\"";
    let request = rfc_request(
        input,
        "bbN8oArOxYoyylQQUU6QYwrTuaxLwjAC9fbY2F6SVWvh0yBiMIRGOnMYwZ/5MR6fb0Kh1rIRASVxFkeGt683+qRp\
         RRU5p2voTp768ZrCUb38K0fUxN0O0iC59DzYx8DFll5GmydPxSmme9v6ULbMFkl+V5B1TP/yPViV7KsLNmvKiLJH\
         1pFkh/aYA2HXXZzNBXmIkoQoLd7YfW91kE9o/CCoC1xMy7JA1ipwvKvfrs65ldmlu9bpG6A9BmzhuzF8Eim5f8ui\
         9eH8LZH896+QIF61ka39VBrohr9iyMUJpvRX2Zbhl5ZJzSRxpJyoEZAFL2FUo5fTIztsDZKEgM4cUA==",
    );
    let (base, _) = rfc9421::testing::raw(&request.received(), "sig");
    let expected = format!(
        "\"date\": Tue, 20 Apr 2021 02:07:55 GMT\n\"@method\": POST\n\"@path\": /foo\n\
         \"@query\": ?param=Value&Pet=dog\n\"@authority\": example.com\n\
         \"content-type\": application/json\n\"content-digest\": {CONTENT_DIGEST}\n\
         \"content-length\": 18\n\"@signature-params\": {input}"
    );
    assert_eq!(String::from_utf8(base).unwrap(), expected);
    // This one covers all that is asked for here, so it passes as a whole.
    let now = crate::signature::request::from_seconds(1_618_884_473);
    let key = PublicKey::from_pem(RFC_RSA_PSS_PUBLIC).unwrap();
    let checked = check(&request.received(), br#"{"hello": "world"}"#, now).unwrap();
    assert!(checked.verify(&key).is_ok());
    assert_eq!(checked.claim.key_id, "test-key-rsa-pss");
    assert_eq!(checked.signed_at, now);
}

#[test]
fn rfc_9421_b_2_6_ed25519() {
    let signature =
        "wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==";
    let input = "(\"date\" \"@method\" \"@path\" \"@authority\" \"content-type\" \
         \"content-length\");created=1618884473;keyid=\"test-key-ed25519\"";
    let request = rfc_request(input, signature);
    let (base, raw) = rfc9421::testing::raw(&request.received(), "sig");
    let key = PublicKey::from_pem(RFC_ED25519_PUBLIC).unwrap();
    assert!(key.verifies(Algorithm::OfKey, &base, &raw));
    assert!(!key.verifies(Algorithm::RsaSha256, &base, &raw));
    // Ed25519 gives the same signature each time.
    let private = PrivateKey::from_pem(RFC_ED25519_PRIVATE).unwrap();
    assert_eq!(STANDARD.encode(private.sign(&base).unwrap()), signature);
    // It leaves out the query and the body: not enough here.
    let now = crate::signature::request::from_seconds(1_618_884_473);
    let refused = check(&request.received(), br#"{"hello": "world"}"#, now);
    assert_eq!(refused, Err(SignatureError::NotCovered("@query")));
}

#[test]
fn rfc_9421_4_3_the_second_of_two_signatures() {
    let components = "\"@method\" \"@authority\" \"@path\" \"content-digest\" \"content-type\" \
         \"content-length\"";
    let input = format!(
        "sig1=({components});created=1618884475;keyid=\"test-key-ecc-p256\", \
         proxy_sig=({components} \"forwarded\");created=1618884480;keyid=\"test-key-rsa\";\
         alg=\"rsa-v1_5-sha256\";expires=1618884540"
    );
    let signature = "sig1=:X5spyd6CFnAG5QnDyHfqoSNICd+BUP4LYMz2Q0JXlb//4Ijpzp+kve2w4NIyqeAuM7jTDX+s\
         NalzA8ESSaHD3A==:, proxy_sig=:S6ZzPXSdAMOPjN/6KXfXWNO/f7V6cHm7BXYUh3YD/fRad4BCaRZxP+JH+8\
         XY1I6+8Cy+CM5g92iHgxtRPz+MjniOaYmdkDcnL9cCpXJleXsOckpURl49GwiyUpZ10KHgOEe11sx3G2gxI8S0jn\
         xQB+Pu68U9vVcasqOWAEObtNKKZd8tSFu7LB5YAv0RAGhB8tmpv7sFnIm9y+7X5kXQfi8NMaZaA8i2ZHwpBdg7a6\
         CMfwnnrtflzvZdXAsD3LH2TwevU+/PBPv0B6NMNk93wUs/vfJvye+YuI87HU38lZHowtznbLVdp770I6VHR6WfgS\
         9ddzirrswsE1w5o0LV/g==:";
    let headers = headers(&[
        ("host", "origin.host.internal.example"),
        ("content-type", "application/json"),
        ("content-length", "18"),
        ("forwarded", "for=192.0.2.123;host=example.com;proto=https"),
        ("content-digest", CONTENT_DIGEST),
        ("signature-input", &input),
        ("signature", signature),
    ]);
    let authority = "origin.host.internal.example";
    let request = Request { target: "/foo?param=Value&Pet=dog", authority, headers };
    let (base, raw) = rfc9421::testing::raw(&request.received(), "proxy_sig");
    let key = PublicKey::from_pem(RFC_RSA_PUBLIC).unwrap();
    assert!(key.verifies(Algorithm::RsaSha256, &base, &raw));
    assert!(!key.verifies(Algorithm::RsaPssSha512, &base, &raw));
    // PKCS #1 v1.5 gives the same signature each time.
    assert_eq!(PrivateKey::from_pem(RFC_RSA_PRIVATE).unwrap().sign(&base).unwrap(), raw);
}

/// The public key of draft-cavage's appendix C: 1024 bits, too short to be accepted in use.
const CAVAGE_PUBLIC: &str = "MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDCFENGw33yGihy92pDjZQhl0C3\
    6rPJj+CvfSC8+q28hxA161QFNUd13wuCTUcq0Qd2qsBe/2hFyc2DCJJg0h1L78+6Z4UMR7EOcpfdUE9Hf3m/hs+FUR45\
    uBJeDK1HSFHD8bHKD6kv8FPGfJTotc+2xjJwoYi+1hqp1fIekaxsyQIDAQAB";

/// The request of draft-cavage's appendix C, with a signature.
fn cavage_request(signature: &str) -> Request {
    let headers = headers(&[
        ("host", "example.com"),
        ("date", "Sun, 05 Jan 2014 21:31:40 GMT"),
        ("content-type", "application/json"),
        ("digest", "SHA-256=X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE="),
        ("content-length", "18"),
        ("signature", signature),
    ]);
    Request { target: "/foo?param=value&pet=dog", authority: "example.com", headers }
}

fn cavage_verifies(request: &Request, expected_base: &str) {
    let (base, signature) = cavage::testing::raw(&request.received());
    assert_eq!(String::from_utf8(base.clone()).unwrap(), expected_base);
    let key = STANDARD.decode(CAVAGE_PUBLIC).unwrap();
    let algorithm = &RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY;
    UnparsedPublicKey::new(algorithm, key).verify(&base, &signature).unwrap();
}

#[test]
fn cavage_c_1_the_date_alone() {
    let request = cavage_request(
        "keyId=\"Test\",algorithm=\"rsa-sha256\",\
         signature=\"SjWJWbWN7i0wzBvtPl8rbASWz5xQW6mcJmn+ibttBqtifLN7Sazz6m79cNfwwb8DMJ5cou1s7uE\
         GKKCs+FLEEaDV5lp7q25WqS+lavg7T8hc0GppauB6hbgEKTwblDHYGEtbGmtdHgVCk9SuS13F0hZ8FD0k/5OxEP\
         Xe5WozsbM=\"",
    );
    cavage_verifies(&request, "date: Sun, 05 Jan 2014 21:31:40 GMT");
}

#[test]
fn cavage_c_2_target_host_and_date() {
    let request = cavage_request(
        "keyId=\"Test\",algorithm=\"rsa-sha256\",headers=\"(request-target) host date\",\
         signature=\"qdx+H7PHHDZgy4y/Ahn9Tny9V3GP6YgBPyUXMmoxWtLbHpUnXS2mg2+SbrQDMCJypxBLSPQR2aA\
         jn7ndmw2iicw3HMbe8VfEdKFYRqzic+efkb3nndiv/x1xSHDJWeSWkx3ButlYSuBskLu6kd9Fswtemr3lgdDEmn\
         04swr2Os0=\"",
    );
    let base = "(request-target): post /foo?param=value&pet=dog\nhost: example.com\n\
        date: Sun, 05 Jan 2014 21:31:40 GMT";
    cavage_verifies(&request, base);
}

#[test]
fn cavage_c_3_all_headers() {
    // The draft's own text lists (created) and (expires) too, which its signature does not cover.
    let request = cavage_request(
        "keyId=\"Test\",algorithm=\"rsa-sha256\",created=1402170695,expires=1402170699,\
         headers=\"(request-target) host date content-type digest content-length\",\
         signature=\"vSdrb+dS3EceC9bcwHSo4MlyKS59iFIrhgYkz8+oVLEEzmYZZvRs8rgOp+63LEM3v+MFHB32NfpB\
         2bEKBIvB1q52LaEUHFv120V01IL+TAD48XaERZFukWgHoBTLMhYS2Gb51gWxpeIq8knRmPnYePbF5MOkR0Zkly4z\
         KH7s1dE=\"",
    );
    let base = "(request-target): post /foo?param=value&pet=dog\nhost: example.com\n\
        date: Sun, 05 Jan 2014 21:31:40 GMT\ncontent-type: application/json\n\
        digest: SHA-256=X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=\ncontent-length: 18";
    cavage_verifies(&request, base);
}

#[test]
fn published_digests_fit() {
    let body = br#"{"hello": "world"}"#;
    assert_eq!(digest::of_body(body), "SHA-256=X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=");
    let request = rfc_request("()", "");
    assert_eq!(digest::check_content(&request.received(), body), Ok(()));
    let differs = Err(SignatureError::DigestDiffers);
    assert_eq!(digest::check_content(&request.received(), b"other"), differs);
}
