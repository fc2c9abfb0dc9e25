// The whole page: the sections in their order, keys, theme, and which recording is shown.
import { useCallback, useEffect, useLayoutEffect, useMemo, useState } from "preact/hooks";
import { Axis } from "./charts/axis";
import { redrawAll } from "./charts/live";
import { Header } from "./header";
import { Help } from "./help";
import { Nav } from "./nav";
import type { CauseDoc, Page } from "./page";
import { CausePage, Causes } from "./parts/cause";
import { Guard } from "./parts/guard";
import { DIFFERS, SECTIONS, unfold } from "./parts/section";
import { walkChain } from "./sections/chain";
import { Differs } from "./sections/differs";
import { Evidence } from "./sections/evidence";
import { Findings } from "./sections/findings";
import { Flames } from "./sections/flames";
import { Health } from "./sections/health";
import { Latencies } from "./sections/latency";
import { Limits } from "./sections/limits";
import { Recording } from "./sections/recording";
import { RuledOut } from "./sections/ruled-out";
import { Services } from "./sections/services";
import { Settings } from "./sections/settings";
import { Sockets } from "./sections/sockets";
import { Threads } from "./sections/threads";
import { TimeLines } from "./sections/timelines";

export function App({ page }: { page: Page }) {
  const [which, choose] = useState(0);
  const [help, setHelp] = useState(false);
  const [dark, setDark] = useTheme();
  const rest = useSecondPass();
  const run = page.runs[which] ?? page.runs[0];
  const axis = useMemo(() => {
    const lines = run?.timelines;
    const length = Math.max(run?.facts.length_s ?? 0, (lines?.bins ?? 0) * (lines?.bin_s ?? 0));
    return new Axis(length > 0 ? length : 1, `run-${which}`);
  }, [run, which]);
  const goTo = useCallback(
    (at: number) => {
      axis.pin(at);
      document.getElementById("timelines")?.scrollIntoView();
    },
    [axis],
  );
  const [cause, openCause] = useState<CauseDoc | null>(null);
  const causes = useMemo(() => ({ all: page.causes, open: openCause }), [page]);
  useUnfolding(rest);
  useKeys(() => setHelp(true));
  const sections = useMemo(
    () => (page.comparison ? [DIFFERS, ...SECTIONS] : SECTIONS),
    [page.comparison],
  );
  if (!run) return <p class="warning">The report holds no recording.</p>;
  return (
    <Causes.Provider value={causes}>
      <a class="skip" href="#findings">
        To the findings
      </a>
      <Header
        page={page}
        run={run}
        which={which}
        choose={choose}
        dark={dark}
        setDark={setDark}
        help={() => setHelp(true)}
      />
      <div class="body">
        <Nav key={which} sections={sections} whole={rest} />
        <main key={which}>
          {page.comparison && (
            <Guard>
              <Differs compared={page.comparison} />
            </Guard>
          )}
          <Guard>
            <Findings run={run} />
          </Guard>
          <Guard>
            <Services run={run} />
          </Guard>
          <Guard>
            <Evidence run={run} goTo={goTo} />
          </Guard>
          <Guard>
            <RuledOut run={run} />
          </Guard>
          {rest &&
            [
              <TimeLines key="timelines" run={run} axis={axis} />,
              <Latencies key="latency" run={run} />,
              <Sockets key="sockets" run={run} />,
              <Threads key="threads" run={run} axis={axis} />,
              <Flames key="flames" run={run} compared={page.comparison?.flames ?? []} />,
              <Limits key="limits" run={run} />,
              <Health key="health" run={run} />,
              <Settings key="settings" run={run} />,
              <Recording key="recording" run={run} />,
            ].map((section) => <Guard key={section.key}>{section}</Guard>)}
          <footer>
            Written by tcpwhy {page.tcpwhy}. This page loads nothing and sends nothing.
          </footer>
        </main>
      </div>
      <Help open={help} close={() => setHelp(false)} />
      <CausePage cause={cause} close={() => openCause(null)} />
    </Causes.Provider>
  );
}

/** The findings are painted first; true once the rest may follow. */
function useSecondPass(): boolean {
  const [rest, setRest] = useState(false);
  useEffect(() => {
    requestAnimationFrame(() => {
      performance.mark("findings");
      setTimeout(() => setRest(true));
    });
  }, []);
  useEffect(() => {
    if (!rest) return;
    // What is in view is drawn in the frame after the one in which it was laid out.
    requestAnimationFrame(() =>
      requestAnimationFrame(() =>
        setTimeout(() => {
          performance.mark("ready");
          document.documentElement.dataset.ready = "1";
        }),
      ),
    );
  }, [rest]);
  return rest;
}

/** A link to what is closed opens it, as does the address of the page. */
function useUnfolding(ready: boolean): void {
  useEffect(() => {
    const follow = () => unfold(location.hash.slice(1));
    const onClick = (event: MouseEvent) => {
      const link = (event.target as Element).closest?.("a[href^='#']");
      if (link) unfold(link.getAttribute("href")?.slice(1) ?? "");
    };
    if (ready && location.hash !== "") {
      follow();
      document.getElementById(location.hash.slice(1))?.scrollIntoView();
    }
    window.addEventListener("hashchange", follow);
    document.addEventListener("click", onClick);
    return () => {
      window.removeEventListener("hashchange", follow);
      document.removeEventListener("click", onClick);
    };
  }, [ready]);
}

/** Light or dark, as the system is until the reader says otherwise. */
function useTheme(): [boolean, (dark: boolean) => void] {
  const system = useMemo(() => window.matchMedia("(prefers-color-scheme: dark)"), []);
  const [dark, setDark] = useState(system.matches);
  useEffect(() => {
    const follow = () => setDark(system.matches);
    system.addEventListener("change", follow);
    return () => system.removeEventListener("change", follow);
  }, [system]);
  useLayoutEffect(() => {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    redrawAll();
  }, [dark]);
  return [dark, setDark];
}

/** Keys that mean something everywhere but where text is typed. */
function useKeys(help: () => void): void {
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const target = event.target as Element;
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (target.closest("input, select, textarea, dialog")) return;
      if (event.key === "?") help();
      else if (event.key === "j") walkChain(1);
      else if (event.key === "k") walkChain(-1);
      else if (event.key === "/") {
        unfold("sockets");
        document.querySelector<HTMLElement>("#sockets input[type=search]")?.focus();
      } else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, []);
}
