// Of a page of the site: a button at each kernel that can run here. Nothing else is loaded until one is pressed.
for (const cell of document.querySelectorAll('[data-live]')) {
  const button = Object.assign(document.createElement('button'), { type: 'button', textContent: 'Edit and run' });
  const place = cell.appendChild(Object.assign(document.createElement('p'), { className: 'desk' }));
  place.append(button);
  button.onclick = async () => {
    button.disabled = true;
    try {
      (await import('./cell.js')).open(cell, place);
    } catch {
      button.textContent = 'Edit and run: it could not be loaded, try again';
    }
    button.disabled = false;
  };
}
