/// An ordered scan over a base store with pending writes laid over it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace kintsugi::metaserver {

/// `cursor` stands at the first base key >= begin and ends before `end`; it has valid(), key(), value(), next().
/// `overlay` is an ordered map whose entries win; `value_of` maps one to a string, or to null for a removed key.
template <class Cursor, class Overlay, class ValueOf>
void merged_scan(Cursor& cursor, const Overlay& overlay, std::string_view begin, std::string_view end,
                 ValueOf value_of, const std::function<bool(std::string_view, std::string_view)>& visit) {
  auto pending = overlay.lower_bound(begin);
  const auto pending_end = end.empty() ? overlay.end() : overlay.lower_bound(end);
  while (true) {
    const bool has_base = cursor.valid();
    const bool has_pending = pending != pending_end;
    if (!has_base && !has_pending) return;
    const int order = !has_base      ? 1
                      : !has_pending ? -1
                                     : cursor.key().compare(std::string_view(pending->first));
    if (order < 0) {
      if (!visit(cursor.key(), cursor.value())) return;
      cursor.next();
      continue;
    }
    if (order == 0) cursor.next();
    const std::string* value = value_of(pending->second);
    if (value && !visit(std::string_view(pending->first), *value)) return;
    ++pending;
  }
}

}  // namespace kintsugi::metaserver
