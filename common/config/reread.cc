#include "common/config/reread.h"

#include <fmt/ranges.h>

#include "common/base/assert.h"
#include "common/config/toml_file.h"

namespace kintsugi::config {
namespace {

constexpr std::string_view kNoText = "\"\"";

std::string joined(std::string_view what, const std::vector<std::string>& settings) {
  return settings.empty() ? "" : fmt::format("{}: {}", what, fmt::join(settings, ", "));
}

}  // namespace

Settings::Reread::Texts Settings::Reread::values() const {
  Texts texts;
  for (const Setting& setting : settings_.settings_)
    texts.push_back(setting.show());
  return texts;
}

void Settings::Reread::set(const Setting& setting, const std::string& text) {
  const Status set = TomlFile(settings_).apply(setting.key + " = " + text + "\n", setting.key);
  // An address that must be set, and that nobody has set, has no host: its text is empty, which is no address.
  KINTSUGI_ASSERT(set.ok() || (setting.kind == Kind::kAddress && text == kNoText));
}

void Settings::Reread::restore(const Texts& texts) {
  for (size_t i = 0; i < texts.size(); ++i)
    if (settings_.settings_[i].show() != texts[i]) set(settings_.settings_[i], texts[i]);
}

void Settings::Reread::set_defaults() {
  for (Setting& setting : settings_.settings_) {
    set(setting, setting.default_text);
    setting.given = false;
  }
}

Result<std::string> Settings::Reread::run(int argc, const char* const* argv) {
  const Texts before = values();
  set_defaults();  // what is no longer in the file
  const Status parsed = settings_.parse(argc, argv);
  if (!parsed.ok()) {
    restore(before);
    return parsed;
  }
  Texts keep = before, followed, waiting;
  std::vector<const Setting*> changed;
  for (size_t i = 0; i < before.size(); ++i) {
    const Setting& setting = settings_.settings_[i];
    const std::string now = setting.show();
    if (now == before[i]) continue;
    (setting.follow ? followed : waiting).push_back(setting.key + " = " + now);
    if (!setting.follow) continue;
    keep[i] = now;
    changed.push_back(&setting);
  }
  restore(keep);
  for (const Setting* setting : changed)
    setting->follow();
  std::string said = joined("changed", followed);
  if (!followed.empty() && !waiting.empty()) said += "; ";
  return said + joined("changed by a restart only", waiting);
}

}  // namespace kintsugi::config
