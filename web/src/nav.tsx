// The list of sections that stays in view and tells where the reader is.
import { useEffect, useRef, useState } from "preact/hooks";

/** `whole`: all sections are in the page. */
export function Nav({ sections, whole }: { sections: [string, string][]; whole: boolean }) {
  const [at, setAt] = useState(sections[0]?.[0]);
  useEffect(() => {
    if (!whole) return;
    const visible = new Set<string>();
    const watch = new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting } of entries) {
          if (isIntersecting) visible.add(target.id);
          else visible.delete(target.id);
        }
        const first = sections.find(([id]) => visible.has(id));
        if (first) setAt(first[0]);
      },
      { rootMargin: "-70px 0px -60% 0px" },
    );
    for (const [id] of sections) {
      const section = document.getElementById(id);
      if (section) watch.observe(section);
    }
    return () => watch.disconnect();
  }, [sections, whole]);
  const list = useRef<HTMLElement>(null);
  useEffect(() => {
    // On a narrow screen the list is a strip that scrolls sideways.
    const current = list.current?.querySelector<HTMLElement>("[aria-current]");
    if (current && list.current) list.current.scrollLeft = current.offsetLeft - 60;
  }, [at]);
  return (
    <nav aria-label="Sections" ref={list}>
      <ol>
        {sections.map(([id, title]) => (
          <li key={id}>
            <a href={`#${id}`} aria-current={id === at ? "location" : undefined}>
              {title}
            </a>
          </li>
        ))}
      </ol>
    </nav>
  );
}
