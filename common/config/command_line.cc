#include "common/config/command_line.h"

#include <cstdio>
#include <cstdlib>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "common/base/version.h"
#include "common/config/usage_error.h"

namespace kintsugi::config {

struct Settings::CommandLine::Parser {
  CLI::App app;
};

Settings::CommandLine::CommandLine(Settings& settings)
    : settings_(settings), parser_(std::make_unique<Parser>()), values_(settings.settings_.size()) {
  CLI::App& app = parser_->app;
  app.description(settings.description_);
  app.name(settings.program_);
  app.set_help_flag("-h,--help", "print this and exit");
  // The program's name may be followed by what its command line looks like.
  const std::string name = settings.program_.substr(0, settings.program_.find(' '));
  app.set_version_flag("--version", name + " " + std::string(program_version()),
                       "print the version and exit");
  // Without a group the help does not list it.
  app.add_flag("--describe", description_wanted_)->group("");
  app.add_flag("--check", check_wanted_, "check the settings, print all of them and exit");
  app.add_option("--config", config_file_, "settings as TOML; flags override them")->type_name("FILE");
  for (size_t i = 0; i < values_.size(); ++i) {
    const Setting& setting = settings.settings_[i];
    const std::string flag = setting.flag();
    const std::string help =
        setting.help +
        (setting.kind == Kind::kList ? "; several with commas between them, or the flag again" : "") +
        (setting.required ? " (required)" : "");
    // An empty part of the help is left out.
    const bool has_default = setting.default_text != "\"\"" && setting.default_text != "[]";
    if (setting.kind == Kind::kBool) {
      std::string negated = "!--no-" + flag.substr(2);
      app.add_flag(flag + "," + negated, values_[i], help)->take_last();
      continue;
    }
    auto* option = app.add_option(flag, values_[i], help)->allow_extra_args(false)->expected(1);
    if (setting.kind == Kind::kList) {
      option->take_all()->delimiter(',');
    } else {
      option->take_last();
    }
    option->type_name(std::string(setting.form()));
    if (has_default) option->default_str(setting.default_text);
  }
}

Settings::CommandLine::~CommandLine() = default;

Status Settings::CommandLine::read(int argc, const char* const* argv) {
  try {
    parser_->app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    help_wanted_ = true;
  } catch (const CLI::CallForVersion& version) {
    std::printf("%s\n", version.what());
    std::exit(0);
  } catch (const CLI::ParseError& error) {
    return {Code::kInvalidArgument, usage_error(parser_->app, error) + " (see --help)"};
  }
  return {};
}

Status Settings::CommandLine::apply() {
  for (size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].empty()) continue;
    Setting& setting = settings_.settings_[i];
    KINTSUGI_TRY(setting.set(values_[i]).with_context(setting.flag()));
    setting.given = true;
  }
  return {};
}

std::string Settings::CommandLine::help() const {
  return parser_->app.help();
}

}  // namespace kintsugi::config
