// Keeps what goes wrong in one section from taking the rest of the page with it.
import { Component, type ComponentChildren } from "preact";

export class Guard extends Component<{ children: ComponentChildren }, { why: string | null }> {
  override state = { why: null };

  static override getDerivedStateFromError(error: unknown) {
    return { why: error instanceof Error ? error.message : String(error) };
  }

  override componentDidCatch(error: unknown) {
    console.error(error);
  }

  override render() {
    const { why } = this.state;
    if (why === null) return this.props.children;
    return <p class="warning">This section cannot be shown: {why}.</p>;
  }
}
