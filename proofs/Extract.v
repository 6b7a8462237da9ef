(* The model as a program, for people and payload that are numbers, with the rule of known windows; of none it drops nothing. *)
From mathcomp Require Import ssreflect ssrfun ssrbool eqtype ssrnat seq.
From kanonflow Require Import Step Against.
From Coq Require Import ExtrOcamlBasic ExtrOcamlNatInt.

Definition run_step := @step nat_eqType nat_eqType.
Definition fresh := @start nat_eqType nat_eqType.
Definition windows_known people least d := @against nat_eqType nat_eqType people least d 0 (fun=> 0).

Extraction Language OCaml.
Extraction "model.ml" run_step fresh windows_known.
