"use strict";
// Differences between two lists: of lines, or of words. Knows nothing of the page.
const Im2colDiff = (() => {
  // A table of more cells than this would keep the reader waiting: what is left then counts as new.
  const MOST_CELLS = 4e6;

  // A longest common subsequence, as pairs of indices into a and b.
  function common(a, b) {
    let start = 0;
    while (start < a.length && start < b.length && a[start] === b[start]) start++;
    let endA = a.length;
    let endB = b.length;
    while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) {
      endA--;
      endB--;
    }
    const pairs = [];
    for (let i = 0; i < start; i++) pairs.push([i, i]);
    pairs.push(...commonMiddle(a, b, start, endA, endB));
    for (let i = endA; i < a.length; i++) pairs.push([i, i - endA + endB]);
    return pairs;
  }

  function commonMiddle(a, b, start, endA, endB) {
    const width = endB - start + 1;
    const cells = (endA - start + 1) * width;
    if (cells > MOST_CELLS) return [];
    // lengths[i * width + j]: of the longest one of a from start + i, and b from start + j.
    const lengths = new Uint32Array(cells);
    const at = (i, j) => (i - start) * width + (j - start);
    for (let i = endA - 1; i >= start; i--) {
      for (let j = endB - 1; j >= start; j--) {
        lengths[at(i, j)] =
          a[i] === b[j]
            ? lengths[at(i + 1, j + 1)] + 1
            : Math.max(lengths[at(i + 1, j)], lengths[at(i, j + 1)]);
      }
    }
    const pairs = [];
    for (let i = start, j = start; i < endA && j < endB; ) {
      if (a[i] === b[j]) pairs.push([i++, j++]);
      else if (lengths[at(i + 1, j)] >= lengths[at(i, j + 1)]) i++;
      else j++;
    }
    return pairs;
  }

  // Rows {left, right, same}: indices, -1 where one side has nothing to set against the other.
  function rows(a, b) {
    const found = [];
    let i = 0;
    let j = 0;
    for (const [nextA, nextB] of [...common(a, b), [a.length, b.length]]) {
      while (i < nextA || j < nextB) {
        found.push({ left: i < nextA ? i++ : -1, right: j < nextB ? j++ : -1, same: false });
      }
      if (i < a.length && j < b.length) found.push({ left: i++, right: j++, same: true });
    }
    return found;
  }

  // Runs of rows, {rows, same}; the inside of a long run of equal ones stands alone, {folded}.
  function runs(all, context) {
    const found = [];
    for (let start = 0, end; start < all.length; start = end) {
      end = start;
      while (end < all.length && all[end].same === all[start].same) end++;
      const before = start > 0 ? start + context : start;
      const after = end < all.length ? end - context : end;
      if (!all[start].same || after - before < 4) {
        found.push({ rows: all.slice(start, end), same: all[start].same, folded: false });
        continue;
      }
      for (const [from, to] of [[start, before], [before, after], [after, end]]) {
        const part = { rows: all.slice(from, to), same: true, folded: from === before };
        if (to > from) found.push(part);
      }
    }
    return found;
  }

  // What changed within two lines that are alike: ranges of characters, for either. Of lines that
  // are not, none: then all has changed.
  function words(left, right) {
    const a = split(left);
    const b = split(right);
    const pairs = common(a, b);
    const size = (list) => list.join("").replace(/\s/g, "").length;
    const kept = size(pairs.map(([i]) => a[i]));
    if (2 * kept < Math.max(size(a), size(b))) return { left: [], right: [] };
    return {
      left: changed(a, new Set(pairs.map(([i]) => i))),
      right: changed(b, new Set(pairs.map(([, j]) => j))),
    };
  }

  const split = (text) => text.match(/\w+|\s+|[^\w\s]/g) || [];

  function changed(pieces, kept) {
    const ranges = [];
    let offset = 0;
    pieces.forEach((piece, index) => {
      const last = ranges[ranges.length - 1];
      if (!kept.has(index) && last && last[1] === offset) last[1] += piece.length;
      else if (!kept.has(index)) ranges.push([offset, offset + piece.length]);
      offset += piece.length;
    });
    return ranges;
  }

  return { rows, runs, words };
})();
