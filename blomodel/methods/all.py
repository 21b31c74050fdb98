"""Imports every method, which registers it."""

import blomodel.methods.alt_pbgd
import blomodel.methods.auto
import blomodel.methods.bda
import blomodel.methods.bic_gaffa  # noqa: F401
import blomodel.methods.blocc
import blomodel.methods.bome
import blomodel.methods.f2sa
import blomodel.methods.galet
import blomodel.methods.gam  # noqa: F401
import blomodel.methods.grid_search  # noqa: F401
import blomodel.methods.iaptt
import blomodel.methods.implicit_cg
import blomodel.methods.implicit_neumann
import blomodel.methods.jnt_pbgd
import blomodel.methods.kkt
import blomodel.methods.kkt_mip
import blomodel.methods.lv_hba  # noqa: F401
import blomodel.methods.meha
import blomodel.methods.pbgd
import blomodel.methods.pbgd_free
import blomodel.methods.perturbed_gd
import blomodel.methods.random_search  # noqa: F401
import blomodel.methods.reduced_penalty
import blomodel.methods.unrolled
import blomodel.methods.value_cuts  # noqa: F401
