//! The page at `/docs` in a real browser, which is told what to do over the WebDriver protocol.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::common::{Ask, DEADLINE, wait_for};
use crate::golden;

/// A browser with one window; closed when it goes out of scope.
struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
}

impl Browser {
    fn open() -> Self {
        let mut driver = Command::new("chromedriver")
            .args(["--port=0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver, of Debian's chromium-driver");
        let mut lines = BufReader::new(driver.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let port = lines.find_map(|line| {
            let (_, port) = line.split_once("started successfully on port ")?;
            port.trim_end_matches('.').parse::<u16>().ok()
        });
        std::thread::spawn(move || lines.for_each(drop));
        let mut browser = Self {
            driver,
            address: SocketAddr::from(([127, 0, 0, 1], port.expect("a port of chromedriver's"))),
            session: String::new(),
        };
        // Without a sandbox, since tests may run as root; the only page it sees is ours.
        let args = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ];
        let wanted = json!({
            "browserName": "chrome",
            "goog:chromeOptions": {"args": args},
            "goog:loggingPrefs": {"browser": "ALL"},
        });
        let opened = browser.tell("", &json!({"capabilities": {"alwaysMatch": wanted}}));
        opened["sessionId"]
            .as_str()
            .unwrap()
            .clone_into(&mut browser.session);
        browser
    }

    fn tell(&self, command: &str, body: &Value) -> Value {
        let target = match self.session.as_str() {
            "" => "/session".to_owned(),
            session => format!("/session/{session}/{command}"),
        };
        let ask = Ask::new(self.address, "POST", &target).header("Content-Type", "application/json");
        ask.body(body.to_string()).send().expect(200)["value"].take()
    }

    fn run(&self, script: &str, args: &Value) -> Value {
        self.tell("execute/sync", &json!({"script": script, "args": args}))
    }

    /// Runs a script again and again until it has something to show.
    fn shows(&self, script: &str) -> String {
        wait_for(script, || {
            self.run(script, &json!([])).as_str().map(str::to_owned)
        })
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ending the session ends the browser; ending the driver alone would leave it behind. A test that fails must
        // not fail once more here, so whatever goes wrong is left at that.
        if let Ok(mut stream) = TcpStream::connect_timeout(&self.address, DEADLINE) {
            let _ = stream.set_read_timeout(Some(DEADLINE));
            let end = format!(
                "DELETE /session/{} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                self.session
            );
            let _ = stream.write_all(end.as_bytes());
            let _ = stream.read(&mut [0]);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

#[test]
#[ignore = "needs chromium and its driver, which ./test installs"]
fn somebody_reads_the_page_and_makes_a_tier_with_it() {
    let (server, admin) = golden();
    let browser = Browser::open();
    let page = format!("http://{}/docs", server.admin);
    browser.tell("url", &json!({"url": page}));
    let ready =
        "return document.querySelector('main[aria-busy=false]') && document.querySelector('h1').textContent";
    assert!(browser.shows(ready).contains("Tollgate"));
    let document = server.ask_admin("GET", "/openapi.json").send().expect(200);
    let items = document["paths"].as_object().unwrap().values();
    let operations: usize = items.map(|item| item.as_object().unwrap().len()).sum();
    assert_eq!(
        browser.run(
            "return document.querySelectorAll('.operation').length",
            &json!([])
        ),
        operations
    );

    // Found by a word, opened, filled in, and sent: first without a token, then with one.
    let find = "const find = document.getElementById('find'); find.value = 'putTier'; \
                find.dispatchEvent(new Event('input')); \
                return document.querySelectorAll('section:not([hidden]) .operation:not([hidden])').length";
    assert_eq!(browser.run(find, &json!([])), 1);
    browser.run("document.getElementById('putTier').open = true", &json!([]));
    browser.shows("return document.querySelector('#putTier form') && 'a form'");
    let fill = "const form = document.querySelector('#putTier form'); form.elements.tier.value = arguments[0]; \
                form.requestSubmit()";
    browser.run(fill, &json!(["a/b"]));
    let answered = "return document.querySelector('#putTier pre.bad, #putTier pre.good')?.textContent";
    assert!(browser.shows(answered).starts_with("401"));
    browser.run(
        "document.getElementById('token').value = arguments[0]",
        &json!([admin.secret()]),
    );
    browser.run(fill, &json!(["a/b"]));
    let made = browser.shows("return document.querySelector('#putTier pre.good')?.textContent");
    assert!(made.starts_with("201"), "{made}");
    admin.get("/v1/tiers/a%2Fb").expect(200);

    // The token is in its field and nowhere else, and nothing was blocked or went wrong on the way.
    let kept = "return JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href, \
                document.body.innerText])";
    let kept = browser.run(kept, &json!([]));
    assert!(!kept.as_str().unwrap().contains(admin.secret()), "{kept}");
    let log = browser.tell("se/log", &json!({"type": "browser"}));
    let troubles: Vec<&Value> = log
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| !expected(entry))
        .collect();
    assert!(troubles.is_empty(), "{troubles:?}");
}

/// The request without a token is meant to fail, and browsers ask for an icon that no page speaks of. What is not even
/// a warning is advice.
fn expected(entry: &Value) -> bool {
    let message = entry["message"].as_str().unwrap_or_default();
    let trouble = entry["level"] == "SEVERE" || entry["level"] == "WARNING";
    !trouble || message.contains("401") || message.contains("/favicon.ico")
}
