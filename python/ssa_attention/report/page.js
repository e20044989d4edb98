'use strict';
// Draws what is in view at once and the rest when the browser is idle, so that a long report opens quickly.
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const template = read('template');
  const figures = read('figures');
  const trouble = document.getElementById('trouble');
  const complain = (message) => {
    trouble.style.display = 'block';
    trouble.append(message, document.createElement('br'));
  };
  window.addEventListener('error', (event) => complain(event.message));
  window.addEventListener('unhandledrejection', (event) => complain(String(event.reason)));
  document.addEventListener('securitypolicyviolation', (event) => complain('blocked: ' + event.blockedURI));

  const waiting = new Set(Object.keys(figures));
  const config = { displayModeBar: false, responsive: true };
  let drawn = 0;
  const draw = (id) => {
    if (!waiting.delete(id)) return;
    const { data, layout } = figures[id];
    Plotly.newPlot(document.getElementById(id), data, { ...layout, template }, config).then(() => {
      drawn += 1;
      document.documentElement.dataset.drawn = drawn;
    }, (error) => complain(id + ': ' + error));
  };
  const view = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) draw(entry.target.id);
  }, { rootMargin: '400px' });
  for (const id of waiting) view.observe(document.getElementById(id));
  // A busy browser may never call itself idle: after the timeout it draws all the same.
  const idle = window.requestIdleCallback ? (work) => requestIdleCallback(work, { timeout: 200 })
    : (work) => setTimeout(work, 30);
  const next = () => {
    if (!waiting.size) return;
    draw(waiting.values().next().value);
    idle(next);
  };
  idle(next);
})();
