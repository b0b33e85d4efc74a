// Material's instant navigation compares links with the sitemap's addresses, but keeps the port
// and path of `site_url`. This makes the sitemap match wherever the site is served from.
{
  const built = {{ config.site_url | tojson }};
  const served = new URL({{ base_url | tojson }} + "/", location.href).href;
  const parse = DOMParser.prototype.parseFromString;
  DOMParser.prototype.parseFromString = function (text, type) {
    const isSitemap = type === "text/xml" && text.includes("<urlset");
    return parse.call(this, isSitemap ? text.replaceAll("<loc>" + built, "<loc>" + served) : text, type);
  };
}
