// A picture in a frame takes the scheme of its address (?scheme=dark), or the reader's.
{
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const asked = new URLSearchParams(location.search).get("scheme");
  const apply = () => {
    const isDark = asked ? asked === "dark" : dark.matches;
    document.body.dataset.mdColorScheme = isDark ? "slate" : "default";
  };
  dark.addEventListener("change", apply);
  apply();
}
