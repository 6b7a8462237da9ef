(* The model as a program, for people and payload that are numbers. *)
From mathcomp Require Import ssreflect ssrfun ssrbool eqtype ssrnat seq.
From kanonflow Require Import Step.
From Coq Require Import ExtrOcamlBasic ExtrOcamlNatInt.

Definition run_step := @step nat_eqType nat_eqType.
Definition fresh := @start nat_eqType nat_eqType.

Extraction Language OCaml.
Extraction "model.ml" run_step fresh.
