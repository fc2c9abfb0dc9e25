// Takes the report's data out of the page and shows it; says why when that fails.
import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./style/page.css";
import "./style/head.css";
import "./style/parts.css";
import "./style/charts.css";
import { App } from "./app";
import { watchPrint } from "./charts/live";
import { decode } from "./data";

async function main(host: HTMLElement): Promise<void> {
  const data = document.getElementById("tcpwhy-data");
  try {
    const page = await decode(data?.textContent ?? "");
    data?.remove();
    render(<App page={page} />, host);
    watchPrint();
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const old = typeof DecompressionStream === "undefined";
    render(
      <p class="warning">
        {old
          ? "This browser is too old to unpack the report: it needs Chromium 103, Firefox 113, Safari 16.4, or newer."
          : `The data of this report cannot be read: ${why}. Was the file cut short?`}
      </p>,
      host,
    );
  }
}

const host = document.getElementById("app");
if (host) void main(host);
