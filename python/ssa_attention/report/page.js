'use strict';
// Unpacks plotly.js and the figures, then draws what is in view at once and the rest of the open sections when the
// browser is idle, so that a long report opens quickly.
(async () => {
  const root = document.documentElement;
  const trouble = document.getElementById('trouble');
  const complain = (message) => {
    trouble.style.display = 'block';
    trouble.append(message, document.createElement('br'));
  };
  window.addEventListener('error', (event) => complain(event.message));
  window.addEventListener('unhandledrejection', (event) => complain(String(event.reason)));
  document.addEventListener('securitypolicyviolation', (event) => complain('blocked: ' + event.blockedURI));

  const openAll = () => document.querySelectorAll('details').forEach((details) => { details.open = true; });
  // A link into a collapsed section opens it.
  const reveal = () => {
    if (location.hash === '#everything') return openAll();
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return undefined;
    const inner = target.querySelector(':scope > details');
    if (inner) inner.open = true;
    for (let at = target.parentElement; at; at = at.parentElement) if (at.tagName === 'DETAILS') at.open = true;
    return target.scrollIntoView();
  };
  window.addEventListener('hashchange', reveal);
  window.addEventListener('beforeprint', openAll);
  document.getElementById('open-all').addEventListener('click', openAll);
  if (window.matchMedia('(max-width: 999px)').matches) document.querySelector('nav details').open = false;
  reveal();

  if (!window.DecompressionStream) {
    complain('This browser is too old for the figures (it lacks DecompressionStream).');
    return;
  }
  // Base 85 as Python writes it, but for "," in place of "<".
  const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~';
  const digits = new Uint8Array(128);
  [...alphabet].forEach((letter, digit) => { digits[letter.charCodeAt(0)] = digit; });
  const decode = (text) => {
    const missing = (5 - (text.length % 5)) % 5;
    const padded = text + '~'.repeat(missing);
    const view = new DataView(new ArrayBuffer((padded.length / 5) * 4));
    for (let i = 0; i < padded.length; i += 5) {
      let word = 0;
      for (let k = i; k < i + 5; k += 1) word = word * 85 + digits[padded.charCodeAt(k)];
      view.setUint32((i / 5) * 4, word);
    }
    return new Uint8Array(view.buffer, 0, view.byteLength - missing);
  };
  const unpack = (element) => new Response(new Blob([decode(element.textContent.trim())]).stream()
    .pipeThrough(new DecompressionStream('gzip'))).text();
  const packed = ['plotly', 'template', 'figures'].map((id) => document.getElementById(id));
  const [library, ...texts] = await Promise.all(packed.map(unpack));
  const [base, figures] = texts.map(JSON.parse);
  const script = document.createElement('script');
  script.textContent = library;
  document.head.append(script);

  // The look of all figures, in the colours of the page, light or dark.
  const template = () => {
    const style = getComputedStyle(root);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { gridcolor: colour('--grid'), linecolor: colour('--axis'), zerolinecolor: colour('--axis'),
      tickcolor: colour('--axis') };
    const { layout } = base;
    return { ...base, layout: { ...layout,
      font: { ...layout.font, color: colour('--ink') },
      paper_bgcolor: colour('--panel'),
      xaxis: { ...layout.xaxis, ...axis },
      yaxis: { ...layout.yaxis, ...axis },
      hoverlabel: { bgcolor: colour('--panel'), bordercolor: colour('--axis'), font: { color: colour('--ink') } } } };
  };
  const waiting = new Set(Object.keys(figures));
  const config = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: false };
  const hidden = new Map(); // section -> names that its key has switched off
  const hiddenIn = (element) => hidden.get(element.closest('section')) || new Set();
  const named = (trace) => (trace.meta && trace.meta.name) || trace.name;
  let drawn = 0;
  const draw = (id) => {
    if (!waiting.delete(id)) return;
    const element = document.getElementById(id);
    const { data, layout } = figures[id];
    const off = hiddenIn(element);
    const shown = data.map((trace) => (off.has(named(trace)) ? { ...trace, visible: false } : trace));
    const sized = { ...layout, height: element.clientHeight, template: template() };
    Plotly.newPlot(element, shown, sized, config).then(() => {
      drawn += 1;
      root.dataset.drawn = drawn;
    }, (error) => complain(id + ': ' + error));
  };
  const view = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) draw(entry.target.id);
  }, { rootMargin: '400px' });
  for (const id of waiting) view.observe(document.getElementById(id));
  // A busy browser may never call itself idle: after the timeout it draws all the same.
  const idle = window.requestIdleCallback ? (work) => requestIdleCallback(work, { timeout: 200 })
    : (work) => setTimeout(work, 30);
  const visible = (element) => (element.checkVisibility ? element.checkVisibility() : element.getClientRects().length > 0);
  let running = false;
  const next = () => {
    running = false;
    for (const id of waiting) {
      if (!visible(document.getElementById(id))) continue; // in a collapsed section
      draw(id);
      start();
      return;
    }
  };
  const start = () => {
    if (running) return;
    running = true;
    idle(next);
  };
  // A long table is unpacked when its section opens.
  const fill = async (details) => {
    const element = details.open && details.querySelector(':scope > script.packed');
    if (element) element.outerHTML = await unpack(element);
  };
  document.querySelectorAll('details').forEach(fill);
  document.addEventListener('toggle', (event) => { fill(event.target); start(); }, true);
  start();

  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
    for (const element of document.querySelectorAll('.js-plotly-plot')) Plotly.relayout(element, { template: template() });
  });
  document.addEventListener('click', (event) => {
    const button = event.target.closest('button');
    if (!button) return;
    if (button.dataset.figure) {
      const element = document.getElementById(button.dataset.figure);
      Plotly.downloadImage(element, { format: 'png', scale: 2, filename: element.id, width: element.clientWidth,
        height: element.clientHeight });
    } else if (button.dataset.trace !== undefined) {
      const section = button.closest('section');
      const off = hiddenIn(section);
      const show = button.getAttribute('aria-pressed') !== 'true';
      if (show) off.delete(button.dataset.trace); else off.add(button.dataset.trace);
      hidden.set(section, off);
      for (const other of section.querySelectorAll('button[data-trace]')) {
        if (other.dataset.trace === button.dataset.trace) other.setAttribute('aria-pressed', String(show));
      }
      for (const element of section.querySelectorAll('.js-plotly-plot')) {
        const which = element.data.flatMap((trace, i) => (named(trace) === button.dataset.trace ? [i] : []));
        if (which.length) Plotly.restyle(element, { visible: show }, which);
      }
    }
  });
})();
