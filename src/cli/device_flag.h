// The flag --device of commands that use a trained model.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

#include "config/config.h"

namespace ssa {

/// `device` holds the default.
inline void add_device(CLI::App& app, std::string& device,
                       const std::string& what = "where the model computes") {
  app.add_option("--device", device, fmt::format("{}: {}", what, kDeviceNames))
      ->check([](const std::string& name) {
        return is_device_name(name) ? std::string() : fmt::format("expected {}", kDeviceNames);
      })
      ->capture_default_str();
}

}  // namespace ssa
